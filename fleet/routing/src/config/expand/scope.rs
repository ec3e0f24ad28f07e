//! The values of `%name%` in one place: parameters of the macro, variables, items of a loop.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::super::json::{Json, Place};
use super::{Outcome, Trouble};

/// Names of one macro, object or loop, and where to look for others.
pub(crate) struct Scope<'s> {
    outer: Option<&'s Scope<'s>>,
    names: RefCell<HashMap<Arc<str>, Meaning>>,
}

#[derive(Clone)]
enum Meaning {
    Value(Rc<Json>),
    Unexpanded(Rc<Json>),
    Open,
}

impl<'s> Scope<'s> {
    /// The scope of a file, or of the result of a macro, which sees nothing of where it is called.
    pub(crate) fn root() -> Self {
        Self { outer: None, names: RefCell::default() }
    }

    pub(crate) fn within(outer: &'s Scope<'s>) -> Self {
        Self { outer: Some(outer), names: RefCell::default() }
    }

    /// Adds a name that this scope does not have yet.
    pub(crate) fn add(&self, name: &Arc<str>, value: Rc<Json>, place: &Place) -> Outcome<()> {
        if self.own(name).is_some() {
            return Err(Trouble::at(place, format!("two parameters here have the name {name:?}")));
        }
        self.set(name, Meaning::Value(value));
        Ok(())
    }

    /// Adds a value that is expanded on its first use.
    pub(crate) fn add_unexpanded(&self, name: &Arc<str>, value: Json) {
        self.set(name, Meaning::Unexpanded(Rc::new(value)));
    }

    /// Changes the value of a name in this scope.
    pub(crate) fn assign(&self, name: &Arc<str>, value: Rc<Json>) {
        self.set(name, Meaning::Value(value));
    }

    fn own(&self, name: &str) -> Option<Meaning> {
        self.names.borrow().get(name).cloned()
    }

    fn set(&self, name: &Arc<str>, meaning: Meaning) {
        self.names.borrow_mut().insert(Arc::clone(name), meaning);
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.own(name).is_some() || self.outer.is_some_and(|outer| outer.contains(name))
    }

    /// The value of a name, in this scope or around it. `expand` is called once, with the scope that has the name, for the first value of
    /// a variable.
    pub(super) fn find(
        &self,
        name: &str,
        place: &Place,
        expand: impl FnOnce(&Json, &Scope<'_>) -> Outcome<Rc<Json>>,
    ) -> Outcome<Option<Rc<Json>>> {
        let mut scope = self;
        let found = loop {
            match (scope.own(name), scope.outer) {
                (Some(found), _) => break found,
                (None, Some(outer)) => scope = outer,
                (None, None) => return Ok(None),
            }
        };
        match found {
            Meaning::Value(value) => Ok(Some(value)),
            Meaning::Open => Err(Trouble::at(place, format!("the variable {name:?} depends on itself"))),
            Meaning::Unexpanded(json) => {
                let name = Arc::from(name);
                scope.set(&name, Meaning::Open);
                let value = expand(&json, scope);
                let value = value.map_err(|trouble| trouble.via(|| format!("variable {name:?}")))?;
                scope.assign(&name, Rc::clone(&value));
                Ok(Some(value))
            }
        }
    }
}
