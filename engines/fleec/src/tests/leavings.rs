//! What chunks hold that belong to no item.

use super::open;
use crate::local::Local;
use crate::pool::Taking;
use guira_contract::suite::{store, value_of};
use guira_contract::{Control, Engine, Expiry, Key, Session};
use guira_items::write_continuation;
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);

/// A chunk of a value that is arriving has still the words of the long value that it was a part of before. Another item begins now where that one did.
#[test]
fn a_page_that_is_emptied_costs_no_item_that_a_chunk_of_it_names() {
    let engine = open(16 << 20);
    let mut session = engine.session();
    let names: Vec<String> = (0..16).map(|number| format!("kept{number}")).collect();
    for name in &names {
        store(&mut session, name.as_bytes(), &[7; 29_500], 0, Expiry::Never, NOW).unwrap();
    }
    let core = &engine.core;
    let mut local = Local::new(core.clone());
    let key = Key { bytes: names[0].as_bytes(), hash: session.hash(names[0].as_bytes()) };
    let bucket = core.table.bucket_of(key.hash.0);
    let named = local.editor().at_key(bucket, key, NOW, |_, spot| spot.node.map(|node| node.at)).unwrap();
    let class = core.memory.class_at(named).unwrap();
    assert!(local.cache().refill(&core.memory, class, Taking::Fresh));
    let arriving = local.cache().pop(class).unwrap();
    assert_ne!(core.memory.slab().page_at(arriving), core.memory.slab().page_at(named));
    write_continuation(core.shell.region(), arriving, 1000, None, named);
    for _ in 0..4 {
        let _ = engine.reassign(Some(u32::from(class.0) + 1), 1);
    }
    let lost = names.iter().filter(|name| value_of(&mut session, name.as_bytes(), NOW).is_none());
    assert_eq!((lost.count(), engine.stats().evictions), (0, 0));
}
