//! Adds items to the destination, with retries.

use guira_client::pools::{Error, ErrorKind, Store};

/// Attempts in a row of which none succeeds.
const ATTEMPTS_MAX: u32 = 10;

/// What happened to an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    Copied,
    /// The destination already had the key.
    Present,
    Failed(Error),
}

/// Why items were not added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AddError {
    Down(Error),
    Stopped,
}

/// Whether an attempt is to follow a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    Yes,
    Stop,
}

/// Adds items by `add`. If servers do not reply, it repeats the rest after a `pause`. A server may have stored an item
/// without a reply in time: the item then counts as present.
pub(crate) fn add_all(
    stores: &[Store<'_>],
    mut add: impl FnMut(&[Store<'_>]) -> Vec<Result<bool, Error>>,
    mut pause: impl FnMut() -> Again,
) -> Result<Vec<Added>, AddError> {
    let mut added: Vec<Option<Added>> = vec![None; stores.len()];
    let mut left: Vec<usize> = (0..stores.len()).collect();
    let mut attempts = 0;
    while !left.is_empty() {
        let batch: Vec<Store<'_>> = left.iter().map(|place| stores[*place]).collect();
        let (mut again, mut last) = (Vec::new(), None);
        for (place, result) in left.iter().zip(add(&batch)) {
            match result {
                Ok(true) => added[*place] = Some(Added::Copied),
                Ok(false) => added[*place] = Some(Added::Present),
                Err(error) if is_lasting(error.kind()) => added[*place] = Some(Added::Failed(error)),
                Err(error) => {
                    again.push(*place);
                    last = Some(error);
                }
            }
        }
        attempts = if again.len() < left.len() { 0 } else { attempts + 1 };
        left = again;
        if attempts > 0
            && let Some(error) = last
        {
            if attempts >= ATTEMPTS_MAX {
                return Err(AddError::Down(error));
            }
            if pause() == Again::Stop {
                return Err(AddError::Stopped);
            }
        }
    }
    Ok(added.into_iter().flatten().collect())
}

/// Whether the same request would fail again.
fn is_lasting(kind: &ErrorKind) -> bool {
    !matches!(
        kind,
        ErrorKind::Timeout | ErrorKind::Unreachable | ErrorKind::Down | ErrorKind::Broken | ErrorKind::Busy
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: ErrorKind) -> Result<bool, Error> {
        Err(kind.into())
    }

    #[test]
    fn what_got_no_reply_is_added_again_and_nothing_else() {
        let keys = ["a", "b", "c", "d"];
        let stores = keys.map(|key| Store::new(key.as_bytes(), b"v"));
        let mut replies = vec![
            vec![Ok(false)],
            vec![failed(ErrorKind::Unreachable)],
            vec![Ok(true), Ok(false), failed(ErrorKind::TooLarge), failed(ErrorKind::Broken)],
        ];
        let (mut sizes, mut pauses) = (Vec::new(), 0);
        let added = add_all(
            &stores,
            |batch| {
                sizes.push(batch.len());
                replies.pop().expect("no further attempt")
            },
            || {
                pauses += 1;
                Again::Yes
            },
        );
        let too_large = Added::Failed(ErrorKind::TooLarge.into());
        assert_eq!(added, Ok(vec![Added::Copied, Added::Present, too_large, Added::Present]));
        assert_eq!((sizes, pauses), (vec![4, 1, 1], 1), "an attempt with a success is repeated at once");
    }

    #[test]
    fn a_destination_that_stays_down_ends_the_copy_and_so_does_a_stop() {
        let stores = [Store::new(b"a", b"v")];
        let down = |_: &[Store<'_>]| vec![failed(ErrorKind::Down)];
        let mut pauses = 0;
        let pause = || {
            pauses += 1;
            Again::Yes
        };
        assert_eq!(add_all(&stores, down, pause), Err(AddError::Down(ErrorKind::Down.into())));
        assert_eq!(pauses, ATTEMPTS_MAX - 1);
        assert_eq!(add_all(&stores, down, || Again::Stop), Err(AddError::Stopped));
    }
}
