//! What many clients send while the server stands still arrives in one round.

use guira_tests::{Server, rounds};

#[test]
fn each_client_gets_its_own_replies() {
    rounds::each_client_gets_its_own_replies(&Server::start());
}

#[test]
fn a_client_that_leaves_takes_nothing_from_the_others() {
    rounds::a_client_that_leaves_takes_nothing_from_the_others(&Server::start());
}

#[test]
fn a_client_that_does_not_read_delays_nobody_and_loses_nothing() {
    rounds::a_client_that_does_not_read_delays_nobody_and_loses_nothing(&Server::start());
}
