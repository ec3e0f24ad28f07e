//! Hints, looks and answers, with time that is moved.
