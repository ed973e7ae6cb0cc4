//! Changes that are made once, also where the caller asks again because the answer was lost, and only where the plan is as the
//! caller has seen it.

use super::*;

/// The most changes that a plan knows by their keys; older ones are forgotten. A caller asks again within seconds.
const MOST: usize = 32;

/// What a caller says of a change that it asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepeatableChange {
    /// The caller's key for it, or its hash; without one, it is new each time.
    pub key: Option<String>,
    /// The hash of what is asked.
    pub content: String,
    /// The last change that the caller has seen, if the change is to be made only there.
    pub if_seq: Option<i64>,
}

impl Draft<'_> {
    /// Makes a change once for each key, and not where the plan has moved. Returns the change, made now or before; where there
    /// was nothing to change, its number is that of the last one. What the plan knows of it afterwards is part of it.
    ///
    /// # Errors
    /// The key is that of another change, the plan has moved, or the refusal of the change. A plan does not know what it has
    /// refused: asked for again, it is tried again.
    pub fn once(
        &mut self,
        asked: RepeatableChange,
        change: impl FnOnce(&mut Self) -> Result<String>,
    ) -> Result<MadeChange> {
        let mut made = self.plan.head().made_changes.iter();
        match made.find(|made| asked.key.as_ref() == Some(&made.key)) {
            Some(made) if made.content == asked.content => return Ok(made.clone()),
            Some(_) => return Err(Refusal::KeyUsed),
            None => {}
        }
        let moved = asked.if_seq.is_some_and(|seen| seen != self.after);
        refuse_if(moved, Refusal::Moved(self.after))?;
        let is_known = asked.key.is_some();
        let said = change(self)?;
        let made = MadeChange {
            key: asked.key.unwrap_or_default(),
            content: asked.content,
            seq: self.after + i64::from(self.has_changed()),
            said,
        };
        if is_known {
            self.know(made.clone());
        }
        Ok(made)
    }

    /// Has the plan know which change this is, if it is one.
    pub fn know(&mut self, made: MadeChange) {
        if self.has_changed() {
            let seq = self.after + 1;
            self.change_head(|head| {
                let old = (head.made_changes.len() + 1).saturating_sub(MOST);
                head.made_changes.drain(..old);
                head.made_changes.push(MadeChange { seq, ..made });
            });
        }
    }
}
