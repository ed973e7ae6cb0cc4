//! Limits of the budget as a person writes them: an amount of more than nothing, or `"none"`. A zero is refused, because some
//! people who write it mean no limit and others mean nothing at all.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::Value;

use super::duration_text;
use crate::wire::{one_line, parse_span};

/// The word for no limit.
const NONE: &str = "none";

/// Characters that an error repeats of what is no limit.
const SHOWN: usize = 100;

/// An amount that may not be exceeded, or no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfiguredLimit<T>(pub Option<T>);

/// The unit of a limit.
pub trait Amount: Copy {
    /// How a person writes it, in the words of an error.
    const WRITTEN: &str;

    /// Writes it.
    fn write(self) -> Value;

    /// Reads it; `None` if the value is no such amount.
    fn read(written: &Value) -> Option<Self>;
}

impl Amount for u64 {
    const WRITTEN: &str = "a whole number from 1";

    fn write(self) -> Value {
        i64::try_from(self).unwrap_or(i64::MAX).into()
    }

    fn read(written: &Value) -> Option<Self> {
        let count = written.as_integer()?;
        Self::try_from(count).ok().filter(|count| *count > 0)
    }
}

impl Amount for f64 {
    const WRITTEN: &str = "a number above 0";

    fn write(self) -> Value {
        self.into()
    }

    fn read(written: &Value) -> Option<Self> {
        let count = || u32::try_from(written.as_integer()?).ok();
        let number = written.as_float().or_else(|| count().map(Self::from))?;
        (number.is_finite() && number > 0.0).then_some(number)
    }
}

impl Amount for Duration {
    const WRITTEN: &str = "a duration such as \"90s\", \"10m\" or \"1h 30m\"";

    fn write(self) -> Value {
        duration_text(self).into()
    }

    fn read(written: &Value) -> Option<Self> {
        written.as_str().and_then(parse_span)
    }
}

impl<T: Amount> Serialize for ConfiguredLimit<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = self.0.map_or_else(|| NONE.into(), T::write);
        written.serialize(serializer)
    }
}

impl<'de, T: Amount> Deserialize<'de> for ConfiguredLimit<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Value::deserialize(deserializer)?;
        let word = written.as_str().map(str::trim);
        if word.is_some_and(|word| word.eq_ignore_ascii_case(NONE)) {
            return Ok(Self(None));
        }
        let amount = T::read(&written).ok_or_else(|| {
            let (shown, form) = (one_line(&written.to_string(), SHOWN), T::WRITTEN);
            D::Error::custom(format!(
                "{shown} is no limit, which is {form}, or \"{NONE}\" for no limit"
            ))
        });
        amount.map(|amount| Self(Some(amount)))
    }
}
