//! Counters of a client, by name: each is declared once.

use guira_sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($name:ident $about:literal)*) => {
        /// Counters of a client and its clones, since the first of them was created.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $(#[doc = $about] pub $name: u64,)*
        }

        impl Counters {
            /// The counters with their names, for metrics.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }

        #[derive(Debug, Default)]
        pub(super) struct Counts {
            $(pub(super) $name: $crate::counters::Count,)*
        }

        impl Counts {
            pub(super) fn values(&self) -> Counters {
                Counters { $($name: self.$name.get(),)* }
            }
        }
    };
}

pub(crate) use counters;

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, number: usize) {
        self.0.fetch_add(number as u64, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
