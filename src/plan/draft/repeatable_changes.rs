//! Changes that are made once, also where the caller asks again because the answer was lost, and only where the plan is as the
//! caller has seen it.

use super::{Draft, Refusal};
use crate::plan::model::MadeChange;

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

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeEnd {
    /// It is made, now or before, with the change of this number; where there was nothing to change, the last one.
    Done { seq: i64, said: String },
    /// Its key is that of another change.
    KeyTaken,
    /// The plan has changed since; contains its last change.
    Moved(i64),
}

impl Draft<'_> {
    /// Makes a change once for each key, and not where the plan has moved. What the plan knows of it afterwards is part of it.
    ///
    /// # Errors
    /// The refusal of the change. A plan does not know what it has refused: asked for again, it is tried again.
    pub fn once(
        &mut self,
        asked: RepeatableChange,
        change: impl FnOnce(&mut Self) -> Result<String, Refusal>,
    ) -> Result<ChangeEnd, Refusal> {
        let known = self.plan.head().made_changes.iter();
        let mut known = known.filter(|known| asked.key.as_ref() == Some(&known.key));
        if let Some(known) = known.next() {
            let same = known.content == asked.content;
            let (seq, said) = (known.seq, known.said.clone());
            return Ok(if same {
                ChangeEnd::Done { seq, said }
            } else {
                ChangeEnd::KeyTaken
            });
        }
        if asked.if_seq.is_some_and(|seen| seen != self.after) {
            return Ok(ChangeEnd::Moved(self.after));
        }
        let said = change(self)?;
        if !self.has_changed() {
            return Ok(ChangeEnd::Done {
                seq: self.after,
                said,
            });
        }
        let seq = self.after + 1;
        if let Some(key) = asked.key {
            let (content, said) = (asked.content, said.clone());
            self.change_head(|head| {
                let old = (head.made_changes.len() + 1).saturating_sub(MOST);
                head.made_changes.drain(..old);
                head.made_changes.push(MadeChange {
                    key,
                    content,
                    seq,
                    said,
                });
            });
        }
        Ok(ChangeEnd::Done { seq, said })
    }
}
