//! The tree that requests begin in, and those before it, in which some still are.

use crate::tree::Tree;

#[derive(Debug)]
pub(super) struct Trees {
    current: Box<Tree>,
    number: u32,
    former: Vec<(u32, Box<Tree>)>,
}

/// A tree, and the number by which frames know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planted<'t> {
    pub(super) tree: &'t Tree,
    pub(super) number: u32,
}

impl Trees {
    pub(super) fn new(tree: Tree) -> Self {
        Trees { current: Box::new(tree), number: 0, former: Vec::new() }
    }

    #[inline]
    pub(super) fn current(&self) -> Planted<'_> {
        Planted { tree: &self.current, number: self.number }
    }

    #[inline]
    pub(super) fn numbered(&self, number: u32) -> Option<Planted<'_>> {
        if number == self.number {
            return Some(self.current());
        }
        let former = self.former.iter().find(|(known, _)| *known == number);
        former.map(|(number, tree)| Planted { tree, number: *number })
    }

    /// Requests begin in another tree from now on. Returns the one before, if nothing is in it.
    pub(super) fn replace(&mut self, tree: Tree, inside: &Inside) -> Option<Box<Tree>> {
        let (before, number) = (std::mem::replace(&mut self.current, Box::new(tree)), self.number);
        self.number = number.wrapping_add(1);
        if inside.is_empty(number) {
            return Some(before);
        }
        self.former.push((number, before));
        None
    }

    /// Whether the tree that was replaced `ago` trees ago is still needed.
    pub(super) fn has_former(&self, ago: u64) -> bool {
        self.former.iter().any(|(number, _)| u64::from(self.number.wrapping_sub(*number)) == ago)
    }

    /// Forgets former trees in which nothing is any more.
    #[inline]
    pub(super) fn forget_empty(&mut self, inside: &Inside) {
        if !self.former.is_empty() {
            self.former.retain(|(number, _)| !inside.is_empty(*number));
        }
    }
}

/// How many frames are in each tree that has some: mostly there is one tree.
#[derive(Debug, Default)]
pub(super) struct Inside(Vec<(u32, u32)>);

impl Inside {
    #[inline]
    pub(super) fn enters(&mut self, number: u32) {
        match self.0.iter_mut().find(|(known, _)| *known == number) {
            Some((_, frames)) => *frames += 1,
            None => self.0.push((number, 1)),
        }
    }

    #[inline]
    pub(super) fn leaves(&mut self, number: u32) {
        if let Some(place) = self.0.iter().position(|(known, _)| *known == number) {
            self.0[place].1 -= 1;
            // The place of the only tree is kept.
            if self.0[place].1 == 0 && self.0.len() > 1 {
                self.0.swap_remove(place);
            }
        }
    }

    fn is_empty(&self, number: u32) -> bool {
        self.0.iter().all(|(known, frames)| *known != number || *frames == 0)
    }
}
