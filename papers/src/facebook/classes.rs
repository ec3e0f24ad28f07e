//! A model of a cache with size classes: pages of chunks, an exact LRU order in each class, and a rule that moves pages between
//! classes. What is compared is the rule; all else is the same.

use std::fmt;

/// When a page moves to a class that is about to evict, and which class gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Never: pages stay with the class that took them, as in memcached without its mover.
    Still,
    /// The paper's: a class is needy if its next victim was used at least 20 % more recently than the next victims of the other classes on
    /// average; the class with the least recently used one gives.
    Paper,
    /// The engine's (engines/slab/src/pool/balance.rs): the oldest class gives if its next victim would be older with a page less than that of
    /// the class in need with a page more, and by a fortieth. Ages are counted in bytes stored.
    Engine,
    /// No classes: one order over all memory, which both aim at.
    Global,
}

/// Chunk sizes grow by this factor, as in memcached.
const FACTOR: f64 = 1.25;
const SMALLEST: usize = 64;
const LARGEST: usize = 4096;
/// Of the memory; the paper's were 1 MiB of many GiB.
const PAGES: usize = 256;
/// A class looks whether a page should move this many times while it evicts a page's worth of items.
const LOOKS: usize = 8;
/// What the engine takes for nothing: 1 MiB of ages that are counted in memory, here 1/64 of it.
const SLACK_PART: usize = 64;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Item {
    previous: u32,
    next: u32,
    page: u32,
    /// Its place among the items of its page.
    place: u32,
    class: u32,
    size: u32,
    /// When it was used last: the request, and the bytes stored by then.
    request: u64,
    bytes: u64,
}

const ABSENT: Item =
    Item { previous: NONE, next: NONE, page: NONE, place: 0, class: NONE, size: 0, request: 0, bytes: 0 };

struct Page {
    class: usize,
    items: Vec<u32>,
}

struct Class {
    chunk: usize,
    newest: u32,
    oldest: u32,
    pages: usize,
    open: Vec<u32>,
    evicted: usize,
}

/// The cache. Keys are small numbers.
pub(super) struct Classes {
    rule: Rule,
    memory: usize,
    page: usize,
    items: Vec<Item>,
    pages: Vec<Page>,
    classes: Vec<Class>,
    request: u64,
    stored: u64,
    /// For [`Rule::Global`]: bytes in use.
    used: usize,
    pub(super) moved: u64,
}

impl fmt::Debug for Classes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Classes").field("rule", &self.rule).finish_non_exhaustive()
    }
}

impl Classes {
    pub(super) fn new(rule: Rule, memory: usize, keys: usize) -> Self {
        let sizes = std::iter::successors(Some(SMALLEST as f64), |size| Some(size * FACTOR));
        let sizes = sizes.map(|size| size as usize).take_while(|size| *size < LARGEST).chain([LARGEST]);
        let class =
            |chunk| Class { chunk, newest: NONE, oldest: NONE, pages: 0, open: Vec::new(), evicted: 0 };
        Classes {
            rule,
            memory,
            page: memory / PAGES,
            items: vec![ABSENT; keys],
            pages: Vec::new(),
            classes: sizes.map(class).collect(),
            request: 0,
            stored: 0,
            used: 0,
            moved: 0,
        }
    }

    /// Asks for a key, and stores it if it is not there. Tells whether it was.
    pub(super) fn read(&mut self, key: u32, size: usize) -> bool {
        self.request += 1;
        if self.items[key as usize].class != NONE {
            self.unlink(key);
            self.link_newest(key);
            return true;
        }
        self.stored += size as u64;
        let class = if self.rule == Rule::Global {
            0
        } else {
            self.classes.partition_point(|class| class.chunk < size)
        };
        let page = if self.rule == Rule::Global { self.make_room(size) } else { self.page_with_room(class) };
        let item = &mut self.items[key as usize];
        (item.class, item.page, item.size) = (class as u32, page, size as u32);
        if page != NONE {
            let page = &mut self.pages[page as usize];
            item.place = page.items.len() as u32;
            page.items.push(key);
        }
        self.link_newest(key);
        false
    }

    /// Evicts until an item of this size fits.
    fn make_room(&mut self, size: usize) -> u32 {
        self.used += size;
        while self.used > self.memory {
            let victim = self.classes[0].oldest;
            self.used -= self.items[victim as usize].size as usize;
            self.unlink(victim);
            self.items[victim as usize] = ABSENT;
        }
        NONE
    }

    fn page_with_room(&mut self, class: usize) -> u32 {
        let chunks = self.page / self.classes[class].chunk;
        while let Some(page) = self.classes[class].open.last().copied() {
            if self.pages[page as usize].items.len() < chunks {
                return page;
            }
            self.classes[class].open.pop();
        }
        if self.pages.len() < PAGES {
            self.pages.push(Page { class, items: Vec::new() });
            let page = self.pages.len() as u32 - 1;
            self.take(class, page);
            return page;
        }
        self.classes[class].evicted += 1;
        let is_time = self.classes[class].evicted.is_multiple_of((chunks / LOOKS).max(1));
        let donor = if self.classes[class].pages == 0 {
            self.oldest(class, |this, other| this.age(other))
        } else if is_time {
            self.donor(class)
        } else {
            None
        };
        match donor {
            Some(donor) => self.give(donor, class),
            None => self.evict(self.classes[class].oldest),
        }
        self.classes[class].open.last().copied().unwrap_or(NONE)
    }

    fn take(&mut self, class: usize, page: u32) {
        self.pages[page as usize].class = class;
        self.classes[class].pages += 1;
        self.classes[class].open.push(page);
    }

    /// The page with the next victim of `donor` goes to `class`, and what lies in it goes.
    fn give(&mut self, donor: usize, class: usize) {
        let page = self.items[self.classes[donor].oldest as usize].page;
        while let Some(key) = self.pages[page as usize].items.last().copied() {
            self.evict(key);
        }
        self.classes[donor].open.retain(|open| *open != page);
        self.classes[donor].pages -= 1;
        self.moved += 1;
        self.take(class, page);
    }

    fn evict(&mut self, key: u32) {
        let Item { page, place, class, .. } = self.items[key as usize];
        self.unlink(key);
        self.items[key as usize] = ABSENT;
        let items = &mut self.pages[page as usize].items;
        items.swap_remove(place as usize);
        if let Some(moved) = items.get(place as usize) {
            self.items[*moved as usize].place = place;
        }
        let open = &mut self.classes[class as usize].open;
        if open.last() != Some(&page) {
            open.push(page);
        }
    }

    /// Requests since the next victim of a class was used.
    fn age(&self, class: usize) -> f64 {
        (self.request - self.items[self.classes[class].oldest as usize].request) as f64
    }

    /// Bytes stored since then.
    fn age_in_bytes(&self, class: usize) -> f64 {
        (self.stored - self.items[self.classes[class].oldest as usize].bytes) as f64
    }

    /// Other classes that have something to give.
    fn others(&self, class: usize) -> impl Iterator<Item = usize> {
        (0..self.classes.len()).filter(move |other| *other != class && self.classes[*other].oldest != NONE)
    }

    fn oldest(&self, class: usize, age: impl Fn(&Self, usize) -> f64) -> Option<usize> {
        self.others(class).max_by(|one, other| age(self, *one).total_cmp(&age(self, *other)))
    }

    fn donor(&self, class: usize) -> Option<usize> {
        match self.rule {
            Rule::Still | Rule::Global => None,
            Rule::Paper => {
                let ages: Vec<f64> = self.others(class).map(|other| self.age(other)).collect();
                let mean = ages.iter().sum::<f64>() / ages.len().max(1) as f64;
                let is_needy = !ages.is_empty() && self.age(class) <= 0.8 * mean;
                self.oldest(class, Self::age).filter(|_| is_needy)
            }
            Rule::Engine => {
                let without_a_page = |this: &Self, other: usize| match this.classes[other].pages {
                    0 | 1 => this.age_in_bytes(other) / 4.0,
                    pages => this.age_in_bytes(other) * (1.0 - 1.0 / pages as f64),
                };
                let age = self.age_in_bytes(class);
                let with_one_more = age + age / self.classes[class].pages as f64;
                let threshold =
                    with_one_more.max(age * (1.0 + 1.0 / 40.0)) + (self.memory / SLACK_PART) as f64;
                self.oldest(class, without_a_page).filter(|donor| without_a_page(self, *donor) >= threshold)
            }
        }
    }

    fn unlink(&mut self, key: u32) {
        let Item { previous, next, class, .. } = self.items[key as usize];
        match previous {
            NONE => self.classes[class as usize].newest = next,
            previous => self.items[previous as usize].next = next,
        }
        match next {
            NONE => self.classes[class as usize].oldest = previous,
            next => self.items[next as usize].previous = previous,
        }
    }

    fn link_newest(&mut self, key: u32) {
        let (request, bytes) = (self.request, self.stored);
        let class = self.items[key as usize].class as usize;
        let second = std::mem::replace(&mut self.classes[class].newest, key);
        match second {
            NONE => self.classes[class].oldest = key,
            second => self.items[second as usize].previous = key,
        }
        let item = &mut self.items[key as usize];
        (item.previous, item.next, item.request, item.bytes) = (NONE, second, request, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::{Classes, Rule};

    const MEMORY: usize = 1 << 20;

    /// How many of the last `newest` keys of `keys`, which were stored in this order, are there.
    fn kept(cache: &mut Classes, keys: std::ops::Range<u32>, newest: u32) -> u32 {
        (keys.end - newest..keys.end).filter(|key| cache.items[*key as usize].class != super::NONE).count()
            as u32
    }

    #[test]
    fn one_order_keeps_what_fits() {
        let mut cache = Classes::new(Rule::Global, MEMORY, 20_000);
        (0..20_000).for_each(|key| assert!(!cache.read(key, 100)));
        let fit = (MEMORY / 100) as u32;
        assert_eq!((kept(&mut cache, 0..20_000, fit), kept(&mut cache, 0..20_000, fit + 1)), (fit, fit));
    }

    #[test]
    fn pages_follow_the_sizes_unless_they_are_to_stay() {
        for (rule, follows) in [(Rule::Still, false), (Rule::Paper, true), (Rule::Engine, true)] {
            let mut cache = Classes::new(rule, MEMORY, 40_000);
            (0..20_000).for_each(|key| assert!(!cache.read(key, 100)));
            assert!(kept(&mut cache, 0..20_000, 8_000) >= 7_900, "{rule:?}");
            // Four times the memory of items of a thousand bytes.
            (20_000..24_000).for_each(|key| assert!(!cache.read(key, 1000)));
            let large = kept(&mut cache, 20_000..24_000, 700);
            assert_eq!(large == 700, follows, "{rule:?}: {large}, {} pages moved", cache.moved);
            assert_eq!(cache.moved > 100, follows, "{rule:?}");
        }
    }

    #[test]
    fn what_is_used_stays() {
        for rule in [Rule::Still, Rule::Paper, Rule::Engine, Rule::Global] {
            let mut cache = Classes::new(rule, MEMORY, 40_000);
            (0..100).for_each(|key| assert!(!cache.read(key, 100)));
            for key in 100..40_000 {
                cache.read(key, 100);
                assert!(cache.read(key % 100, 100), "{rule:?}: {}", key % 100);
            }
        }
    }
}
