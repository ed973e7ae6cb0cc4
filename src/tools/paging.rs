//! Bounded answers: lists come in pages and say how many items are left.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Items of a list when the caller does not say how many.
pub const DEFAULT_LIMIT: usize = 50;

/// Items of a list at most.
pub(super) const MAX_LIMIT: usize = 1000;

/// Bytes of a list as it is sent: when the caller does not say how many items, and when it does.
const DEFAULT_BYTES: usize = 14_000;
const MAX_BYTES: usize = 512 * 1024;

/// The part of a list that a caller wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(description = "")]
pub struct Page {
    pub limit: Option<usize>,
    pub offset: Option<usize>,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct PagePart<T> {
    pub items: Vec<T>,
    /// The number of items after these.
    pub left: usize,
}

impl Page {
    /// Makes a page of at most `limit` items after the first `offset`.
    pub fn new(limit: Option<usize>, offset: Option<usize>) -> Self {
        Self { limit, offset }
    }

    /// Returns the part of a list of `total` items: from the offset, as many as the caller wants and as fit. At least one,
    /// however large it is, so that a caller that reads page after page comes to an end. Items are rendered only when they are
    /// shown; those before the offset are skipped in one step.
    pub fn shown<I, T: Serialize>(
        self,
        total: usize,
        items: impl Iterator<Item = I>,
        show: impl FnMut(I) -> T,
    ) -> PagePart<T> {
        self.shown_alongside(0, total, items, show)
    }

    /// Does the same where the answer also has other data of this [`weight`].
    pub(super) fn shown_alongside<I, T: Serialize>(
        self,
        other: usize,
        total: usize,
        all: impl Iterator<Item = I>,
        show: impl FnMut(I) -> T,
    ) -> PagePart<T> {
        let offset = self.offset.unwrap_or(0);
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
        let mut room = self.room().saturating_sub(other);
        let mut items = Vec::new();
        for item in all.skip(offset).take(limit).map(show) {
            let size = weight(&item) + 1;
            if size > room && !items.is_empty() {
                break;
            }
            room = room.saturating_sub(size);
            items.push(item);
        }
        let left = total.saturating_sub(offset.saturating_add(items.len()));
        PagePart { items, left }
    }

    /// Returns the part of a list of short items: from the offset, as many as the caller wants, else `most`.
    pub(super) fn cut<I, T>(self, most: usize, items: &[I], show: impl Fn(&I) -> T) -> PagePart<T> {
        let limit = self.limit.unwrap_or(most).min(MAX_LIMIT);
        let shown = items.iter().skip(self.offset.unwrap_or(0));
        let left = shown.len().saturating_sub(limit);
        let items = shown.take(limit).map(show).collect();
        PagePart { items, left }
    }

    /// Returns the [`weight`] that a list may have.
    pub(super) fn room(self) -> usize {
        self.limit.map_or(DEFAULT_BYTES, |_| MAX_BYTES)
    }
}

/// Returns the bytes that a value takes when it is sent: as JSON within a text of another JSON, where quotation marks and
/// backslashes are escaped once more.
pub(super) fn weight(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |json| {
        let escaped = json.iter().filter(|byte| matches!(byte, b'"' | b'\\'));
        json.len() + escaped.count()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn part(page: Page, total: usize, item: &str) -> (usize, usize) {
        let part = page.shown(total, 0..total, |_| json!(item));
        (part.items.len(), part.left)
    }

    #[test]
    fn page_is_cut_and_counts_rest() {
        let page = Page::new;
        assert_eq!(part(page(None, None), 3, "x"), (3, 0));
        assert_eq!(part(page(None, None), 60, "x"), (50, 10));
        assert_eq!(part(page(None, Some(50)), 60, "x"), (10, 0));
        assert_eq!(part(page(Some(5), Some(58)), 60, "x"), (2, 0));
        assert_eq!(part(page(Some(5), Some(100)), 60, "x"), (0, 0));
        assert_eq!(part(page(Some(0), None), 60, "x"), (0, 60));
        assert_eq!(part(page(Some(9999), None), 5000, "x"), (1000, 4000));
    }

    #[test]
    fn page_is_bounded_but_shows_one_item() {
        let page = Page::default();
        let (shown, left) = part(page, 60, &"x".repeat(1000));
        assert!((10..=14).contains(&shown) && left == 60 - shown);
        assert_eq!(part(page, 60, &"x".repeat(100_000)), (1, 59));
    }
}
