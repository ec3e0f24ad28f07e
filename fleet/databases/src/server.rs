//! Which database is used, and as whom.

use crate::{Credentials, Security};
use guira_client::text::Endpoint;

#[derive(Clone, Debug)]
pub struct Server {
    pub endpoint: Endpoint,
    pub security: Security,
    pub credentials: Credentials,
}
