//! Which of several servers holds a key.
