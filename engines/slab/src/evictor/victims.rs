//! The items that go next.

use super::class_order::Placed;
use super::view::View;
use crate::policy::Chunk;
use guira_memory::Offset;
use guira_memory::slab::ClassId;

/// The next victims of a class, and how many chunks the hand has looked at. There are up to `want`, or more if the policy
/// finds dead items.
pub(crate) fn take(view: View<'_>, class: ClassId, want: usize) -> (Vec<Offset>, u64) {
    let mut order = view.orders.lock(class);
    let order = &mut *order;
    let guard = view.pool.memory().lock(class);
    let now = view.moment();
    let circle = order.circle(&guard, now.tick);
    let mut victims: Vec<Chunk> = Vec::with_capacity(want);
    let take = |placed: &mut Placed, victims: &mut Vec<Chunk>| {
        let chunks = view.chunks(placed.area, class, guard.pages()).with_hand(&circle);
        let want = want.saturating_sub(victims.len());
        if want == 0 {
            return;
        }
        placed.state.victims(&chunks, want, now, |chunk| victims.push(chunk));
    };
    let chunks = view.chunks(order.placed.area, class, guard.pages());
    order.placed.state.reclaim(&chunks, now, |chunk| victims.push(chunk));
    take(&mut order.placed, &mut victims);
    if let Some(incoming) = &mut order.incoming {
        take(&mut incoming.placed, &mut victims);
    }
    let steps = order.hand_turned(circle);
    view.note_age(class, order, &guard);
    view.charge_order(order);
    (victims.into_iter().map(|chunk| chunks.place(chunk)).collect(), steps)
}
