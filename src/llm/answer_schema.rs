//! The form of an answer, as a JSON schema within what every provider enforces: all properties required, nothing else allowed,
//! no lengths. Properties keep their order, because models fill them in in that order: what a model should think of first must
//! come first.

use serde::ser::{Serialize, SerializeMap, Serializer};

/// A JSON schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schema {
    /// Text, with a description of its contents.
    Text(&'static str),
    /// Text, or null if there is none.
    OptionalText(&'static str),
    Integer,
    /// A number, or null if there is none.
    OptionalInteger,
    Boolean,
    /// One of these words.
    OneOf(Vec<String>),
    List(Box<Schema>),
    /// A list, or null.
    OptionalList(Box<Schema>),
    /// An object with exactly these properties.
    Object(Vec<(&'static str, Schema)>),
}

impl Schema {
    /// Makes the schema of one of a few words.
    pub fn one_of(words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::OneOf(words.into_iter().map(Into::into).collect())
    }

    /// Makes the schema of a list.
    pub fn list(items: Self) -> Self {
        Self::List(Box::new(items))
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Text(_) | Self::OneOf(_) => map.serialize_entry("type", "string")?,
            Self::OptionalText(_) => map.serialize_entry("type", &["string", "null"])?,
            Self::Integer => map.serialize_entry("type", "integer")?,
            Self::OptionalInteger => map.serialize_entry("type", &["integer", "null"])?,
            Self::Boolean => map.serialize_entry("type", "boolean")?,
            Self::List(_) => map.serialize_entry("type", "array")?,
            Self::OptionalList(_) => map.serialize_entry("type", &["array", "null"])?,
            Self::Object(_) => map.serialize_entry("type", "object")?,
        }
        match self {
            Self::Text(description) | Self::OptionalText(description) => {
                map.serialize_entry("description", description)?;
            }
            Self::OneOf(words) => map.serialize_entry("enum", words)?,
            Self::List(items) | Self::OptionalList(items) => map.serialize_entry("items", items)?,
            Self::Integer | Self::OptionalInteger | Self::Boolean => {}
            Self::Object(properties) => {
                map.serialize_entry("properties", &Properties(properties))?;
                let names = properties.iter().map(|(name, _)| name).collect::<Vec<_>>();
                map.serialize_entry("required", &names)?;
                map.serialize_entry("additionalProperties", &false)?;
            }
        }
        map.end()
    }
}

struct Properties<'a>(&'a [(&'static str, Schema)]);

impl Serialize for Properties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, schema)| (name, schema)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_properties_are_ordered_and_required() {
        let schema = Schema::Object(vec![
            ("reason", Schema::Text("why")),
            ("decision", Schema::one_of(["next", "retry"])),
            ("numbers", Schema::OptionalList(Box::new(Schema::Integer))),
            ("note", Schema::OptionalText("perhaps")),
        ]);
        insta::assert_snapshot!(serde_json::to_string(&schema).unwrap(), @r#"{"type":"object","properties":{"reason":{"type":"string","description":"why"},"decision":{"type":"string","enum":["next","retry"]},"numbers":{"type":["array","null"],"items":{"type":"integer"}},"note":{"type":["string","null"],"description":"perhaps"}},"required":["reason","decision","numbers","note"],"additionalProperties":false}"#);
    }
}
