//! Walks over all items.

use guira_sync::atomic::{AtomicBool, Ordering};

/// Lets one walk at a time be under way.
#[derive(Debug, Default)]
pub struct Walks {
    is_walking: AtomicBool,
}

impl Walks {
    /// Begins a walk. False if one is under way.
    pub fn begin(&self) -> bool {
        // Relaxed: says nothing about what the walk sees.
        !self.is_walking.swap(true, Ordering::Relaxed)
    }

    pub fn end(&self) {
        self.is_walking.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Walks;

    #[test]
    fn one_walk_at_a_time_is_under_way() {
        let walks = Walks::default();
        assert!(walks.begin() && !walks.begin());
        walks.end();
        assert!(walks.begin());
    }
}
