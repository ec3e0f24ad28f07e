//! The preprocessor: expands macros, calls of built-ins, parameters and imports.
//!
//! The expansion depends on the kind of a value: a string that begins with `@` is a call, and in
//! any other string `%name%` is replaced; an object whose `type` names a macro or a built-in is a
//! call as well; everything else is expanded member by member.

mod call;
mod define;
mod definitions;
mod scope;
mod syntax;
mod trouble;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

pub(super) use call::{BuiltIn, Call, Form, Parameter, Presence};
pub(super) use scope::Scope;
pub(super) use trouble::{Outcome, Trouble};

use super::globals::Globals;
use super::json::{ConfigError, Json, Place, Value};
use super::limits::{Budget, EXPANSION_NESTING, IMPORT_NESTING, IMPORTS, RESULT_NESTING, steps};
use super::parse::parse;
use super::sources::Sources;
use definitions::{Constant, Macro};

/// Expands one file and what it imports.
pub(super) struct Expander<'e> {
    sources: &'e dyn Sources,
    globals: &'e Globals,
    budget: Budget,
    nesting: Cell<usize>,
    built_ins: HashMap<&'static str, &'static BuiltIn>,
    macros: HashMap<Arc<str>, Rc<Macro>>,
    constants: HashMap<Arc<str>, Constant>,
    imports: RefCell<Imports>,
    warnings: Vec<ConfigError>,
}

#[derive(Default)]
struct Imports {
    /// All imports, in the order of their first use.
    names: Vec<Arc<str>>,
    results: HashMap<Arc<str>, Rc<Json>>,
    /// The imports in progress, each from the one before it.
    open: Vec<Arc<str>>,
}

/// Counts the nesting while it exists.
struct Level<'l>(&'l Cell<usize>);

impl Drop for Level<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl<'e> Expander<'e> {
    pub(super) fn new(
        sources: &'e dyn Sources,
        globals: &'e Globals,
        built_ins: impl Iterator<Item = &'static BuiltIn>,
        budget: Budget,
    ) -> Self {
        let parameters = globals.parameters().iter();
        Self {
            sources,
            globals,
            budget,
            nesting: Cell::new(0),
            built_ins: built_ins.map(|row| (row.name, row)).collect(),
            macros: HashMap::new(),
            constants: parameters.map(|(name, value)| (Arc::clone(name), Constant::global(value))).collect(),
            imports: RefCell::default(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn finish(self) -> (Vec<Arc<str>>, Vec<ConfigError>) {
        (self.imports.into_inner().names, self.warnings)
    }

    pub(super) fn expand_file(&self, json: &Json) -> Result<Json, ConfigError> {
        self.expand(json, &Scope::root()).map_err(Trouble::finish)
    }

    pub(super) fn globals(&self) -> &Globals {
        self.globals
    }

    pub(super) fn spend(&self, steps: u64, place: &Place) -> Outcome<()> {
        Ok(self.budget.spend(steps, place)?)
    }

    fn enter(&self, place: &Place) -> Outcome<Level<'_>> {
        let nesting = self.nesting.get() + 1;
        if nesting >= EXPANSION_NESTING {
            let reason = format!(
                "more than {EXPANSION_NESTING} macros and values within each other: is there a cycle?"
            );
            return Err(Trouble::limit(place, reason));
        }
        self.nesting.set(nesting);
        Ok(Level(&self.nesting))
    }

    pub(super) fn expand(&self, json: &Json, scope: &Scope<'_>) -> Outcome<Json> {
        let _level = self.enter(&json.place)?;
        match &json.value {
            Value::Text(text) => {
                let expanded = self.expand_text(text, &json.place, scope)?;
                self.own(expanded, &json.place)
            }
            Value::Object(members) => self.expand_object(json, members, scope),
            Value::Array(items) => {
                self.spend(1, &json.place)?;
                let items = items.iter().map(|item| self.expand(item, scope)).collect::<Outcome<_>>()?;
                Ok(Json { place: json.place.clone(), value: Value::Array(items) })
            }
            _ => {
                self.spend(1, &json.place)?;
                Ok(json.clone())
            }
        }
    }

    /// A string that stands at `place`. What a parameter stands for is shared, not copied.
    pub(super) fn expand_text(&self, text: &str, place: &Place, scope: &Scope<'_>) -> Outcome<Rc<Json>> {
        let _level = self.enter(place)?;
        self.spend(steps(text.len()), place)?;
        if !text.starts_with('@') {
            return self.replace(text, place, scope);
        }
        let (name, arguments) = syntax::call(text).map_err(|reason| Trouble::at(place, reason))?;
        let name = self.replace(name, place, scope)?;
        let Value::Text(name) = &name.value else {
            return Err(Trouble::at(place, format!("the name of a macro in {text:?} is {}", name.kind())));
        };
        if let Some(called) = self.macros.get(name) {
            self.spend(called.steps(0), place)?;
            let values = called.bind_texts(&arguments, place, |text| self.expand_text(text, place, scope))?;
            return self.run_macro(called, values, place).map(Rc::new);
        }
        match self.built_ins.get(&**name).map(|row| (*row, &row.form)) {
            Some((row, Form::Call(parameters, run))) => {
                let call = Call::of_texts(self, scope, place, row.name, parameters, &arguments)?;
                run(&call)
            }
            Some((_, Form::Object(_))) => {
                Err(Trouble::at(place, format!("@{name} has no short form: write {{\"type\": {name:?}, …}}")))
            }
            None => Err(Trouble::at(place, format!("unknown macro {name:?}"))),
        }
    }

    /// A string that is no call, with the values of its parameters. One that is a parameter and nothing else is the value itself.
    fn replace(&self, text: &str, place: &Place, scope: &Scope<'_>) -> Outcome<Rc<Json>> {
        let mut result = String::new();
        let mut rest = text;
        while let Some(end) = syntax::unescape_until(rest, '%', &mut result) {
            rest = &rest[end + 1..];
            let mut name = String::new();
            let end = syntax::unescape_until(rest, '%', &mut name).ok_or_else(|| {
                Trouble::at(
                    place,
                    format!("{text:?} has an odd number of percent signs; \\\\% is a plain one"),
                )
            })?;
            rest = &rest[end + 1..];
            let value = self.parameter(&name, place, scope)?;
            if result.is_empty() && rest.is_empty() {
                return Ok(value);
            }
            let Value::Text(value) = &value.value else {
                let reason =
                    format!("{name:?} is {}: within a string only a string can take its place", value.kind());
                return Err(Trouble::at(place, reason));
            };
            self.spend(steps(value.len()), place)?;
            result.push_str(value);
        }
        Ok(Rc::new(Json { place: place.clone(), value: Value::Text(result.into()) }))
    }

    fn parameter(&self, name: &str, place: &Place, scope: &Scope<'_>) -> Outcome<Rc<Json>> {
        if let Some(value) = self.find(name, place, scope)? {
            return Ok(value);
        }
        match self.constants.get(name) {
            Some(constant) => constant.value(name, place, |json| self.expand_shared(json, &Scope::root())),
            None => Err(Trouble::at(place, format!("unknown parameter {name:?}"))),
        }
    }

    fn find(&self, name: &str, place: &Place, scope: &Scope<'_>) -> Outcome<Option<Rc<Json>>> {
        scope.find(name, place, |json, scope| self.expand_shared(json, scope))
    }

    /// Whether `%name%` stands for something.
    pub(super) fn is_defined(&self, name: &str, scope: &Scope<'_>) -> bool {
        scope.contains(name) || self.constants.contains_key(name)
    }

    fn expand_object(&self, json: &Json, members: &[(Arc<str>, Json)], scope: &Scope<'_>) -> Outcome<Json> {
        self.spend(steps(members.len()), &json.place)?;
        let Some(variables) = json.get("vars") else {
            return self.expand_members(json, members, scope);
        };
        let Value::Object(variables) = &variables.value else {
            return Err(Trouble::at(
                &variables.place,
                format!("'vars' is {}, an object expected", variables.kind()),
            ));
        };
        let inner = Scope::within(scope);
        for (name, value) in variables {
            // Unexpanded: variables may refer to each other.
            inner.add_unexpanded(name, self.copy(value)?);
        }
        for (name, value) in variables {
            self.find(name, &value.place, &inner)?;
        }
        self.expand_members(json, members, &inner)
    }

    fn expand_members(&self, json: &Json, members: &[(Arc<str>, Json)], scope: &Scope<'_>) -> Outcome<Json> {
        if let Some(kind) = json.get("type") {
            let kind = self.expand(kind, scope)?;
            if let Value::Text(kind) = &kind.value
                && let Some(result) = self.call_by_object(kind, json, scope)?
            {
                return self.own(result, &json.place);
            }
        }
        let mut result = Members::default();
        for (name, value) in members.iter().filter(|(name, _)| &**name != "vars") {
            let expanded_name = self.expand_name(name, &value.place, scope)?;
            let value = self.expand(value, scope).map_err(|trouble| trouble.in_member(name))?;
            result.insert(expanded_name, value);
        }
        Ok(Json { place: json.place.clone(), value: result.into_value() })
    }

    /// The result of the object, if `kind` names a macro or a built-in.
    fn call_by_object(&self, kind: &Arc<str>, json: &Json, scope: &Scope<'_>) -> Outcome<Option<Rc<Json>>> {
        let row = self.built_ins.get(&**kind);
        if let Some(Form::Object(run)) = row.map(|row| &row.form) {
            return run(self, json, scope).map(|result| Some(Rc::new(result)));
        }
        if let Some(called) = self.macros.get(kind) {
            let arguments = if let Value::Object(members) = &json.value { members.len() } else { 0 };
            self.spend(called.steps(arguments), &json.place)?;
            let values = called.bind_members(json, |argument| self.expand_shared(argument, scope))?;
            return self.run_macro(called, values, &json.place).map(|result| Some(Rc::new(result)));
        }
        match row.map(|row| (row.name, &row.form)) {
            Some((name, Form::Call(parameters, run))) => {
                run(&Call::of_object(self, scope, json, name, parameters)?).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Like [`Expander::expand`], but what a parameter stands for is not copied.
    pub(super) fn expand_shared(&self, json: &Json, scope: &Scope<'_>) -> Outcome<Rc<Json>> {
        match &json.value {
            Value::Text(text) => self.expand_text(text, &json.place, scope),
            _ => self.expand(json, scope).map(Rc::new),
        }
    }

    fn run_macro(&self, called: &Macro, values: Vec<(Arc<str>, Rc<Json>)>, place: &Place) -> Outcome<Json> {
        let scope = Scope::root();
        for (name, value) in values {
            scope.add(&name, value, place)?;
        }
        let via = || format!("macro {:?}, called at {place}", called.name());
        self.expand(called.result(), &scope).map_err(|trouble| trouble.via(via))
    }

    fn expand_name(&self, name: &Arc<str>, place: &Place, scope: &Scope<'_>) -> Outcome<Arc<str>> {
        if syntax::is_plain(name) {
            return Ok(Arc::clone(name));
        }
        let expanded = self.expand_text(name, place, scope)?;
        match &expanded.value {
            Value::Text(expanded) => Ok(Arc::clone(expanded)),
            _ => Err(Trouble::at(
                place,
                format!("the name {name:?} becomes {}, not a string", expanded.kind()),
            )),
        }
    }

    /// The value, for good: copied if others have it too.
    pub(super) fn own(&self, json: Rc<Json>, place: &Place) -> Outcome<Json> {
        Rc::try_unwrap(json).or_else(|shared| self.copy_at(&shared, place))
    }

    pub(super) fn copy(&self, json: &Json) -> Outcome<Json> {
        self.copy_at(json, &json.place)
    }

    /// A copy for a value that is expanded at the current nesting. `place` is for errors.
    ///
    /// Only a copy makes a result deeper than the expansion that makes it: with this limit no value
    /// ever has more than `RESULT_NESTING` levels.
    fn copy_at(&self, json: &Json, place: &Place) -> Outcome<Json> {
        self.copy_level(json, self.nesting.get(), place)
    }

    fn copy_level(&self, json: &Json, level: usize, place: &Place) -> Outcome<Json> {
        if level > RESULT_NESTING {
            let reason =
                format!("the result has more than {RESULT_NESTING} arrays and objects within each other");
            return Err(Trouble::limit(place, reason));
        }
        self.spend(1, place)?;
        let value = match &json.value {
            Value::Array(items) => Value::Array(
                items.iter().map(|item| self.copy_level(item, level + 1, place)).collect::<Outcome<_>>()?,
            ),
            Value::Object(members) => Value::Object(
                members
                    .iter()
                    .map(|(name, json)| Ok((Arc::clone(name), self.copy_level(json, level + 1, place)?)))
                    .collect::<Outcome<_>>()?,
            ),
            other => other.clone(),
        };
        Ok(Json { place: json.place.clone(), value })
    }

    /// The expanded file, which is read once.
    pub(super) fn import(&self, name: &Arc<str>, place: &Place) -> Outcome<Rc<Json>> {
        {
            let imports = &mut *self.imports.borrow_mut();
            if let Some(result) = imports.results.get(name) {
                return Ok(Rc::clone(result));
            }
            if imports.open.contains(name) {
                return Err(Trouble::at(place, format!("{name:?} imports itself")));
            }
            if imports.open.len() >= IMPORT_NESTING {
                let reason = format!("more than {IMPORT_NESTING} imports within each other");
                return Err(Trouble::limit(place, reason));
            }
            if !imports.names.contains(name) {
                if imports.names.len() >= IMPORTS {
                    return Err(Trouble::limit(place, format!("more than {IMPORTS} imports")));
                }
                imports.names.push(Arc::clone(name));
            }
            imports.open.push(Arc::clone(name));
        }
        let result = self.expand_import(name, place);
        self.imports.borrow_mut().open.pop();
        let result = Rc::new(result?);
        self.remember_import(name, &result);
        Ok(result)
    }

    /// Makes `result` the value of further imports of this name.
    pub(super) fn remember_import(&self, name: &Arc<str>, result: &Rc<Json>) {
        self.imports.borrow_mut().results.insert(Arc::clone(name), Rc::clone(result));
    }

    fn expand_import(&self, name: &Arc<str>, place: &Place) -> Outcome<Json> {
        let text = self.sources.read(name);
        let text = text.map_err(|reason| Trouble::at(place, format!("cannot import {name:?}: {reason}")))?;
        let json = parse(name, &text, &self.budget).map_err(Trouble::from);
        let result = json.and_then(|json| self.expand(&json, &Scope::root()));
        result.map_err(|trouble| trouble.via(|| format!("import at {place}")))
    }
}

/// Members of an object that is put together: a name that comes again replaces the earlier value.
#[derive(Default)]
pub(super) struct Members {
    list: Vec<(Arc<str>, Json)>,
    places: HashMap<Arc<str>, usize>,
}

impl Members {
    pub(super) fn insert(&mut self, name: Arc<str>, json: Json) {
        match self.places.get(&name) {
            Some(&at) => self.list[at].1 = json,
            None => {
                self.places.insert(Arc::clone(&name), self.list.len());
                self.list.push((name, json));
            }
        }
    }

    pub(super) fn into_value(self) -> Value {
        Value::Object(self.list)
    }
}
