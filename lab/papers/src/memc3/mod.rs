//! MemC3 (Fan, Andersen and Kaminsky, NSDI 2013).
