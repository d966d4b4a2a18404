//! The requests that a call would make: method, address and body, as they are sent. For `--dry-run`.

use fleet::provider::{ProviderError, SliceId, SliceRequest};
use serde::Serialize;
use serde_json::Value;

use crate::limits::request_id;
use crate::{Account, Ask, body, check_name};

/// What every request has: enums as numbers, so that one this client does not know survives.
const ALT: &str = "$alt=json;enum-encoding=int";

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ApiRequest {
    /// Its method, such as `POST`.
    pub method: &'static str,
    /// Its address.
    pub url: String,
    /// Its body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
}

fn request(account: &Account, method: &'static str, path: &str, query: &[(&str, &str)]) -> ApiRequest {
    let mut url = format!("{}/v2/{path}?", account.endpoint);
    for (key, value) in query {
        url.push_str(&format!("{key}={value}&"));
    }
    url.push_str(ALT);
    ApiRequest { method, url, body: None }
}

fn encoded(value: Result<Value, serde_json::Error>) -> Result<Option<Value>, ProviderError> {
    value.map(Some).map_err(|error| ProviderError::Invalid(format!("cannot be written as JSON: {error}")))
}

/// To know what a zone offers.
pub fn to_check(account: &Account, zone: &str) -> Vec<ApiRequest> {
    let area = account.area(zone);
    let query = [("pageSize", "0"), ("pageToken", ""), ("filter", ""), ("orderBy", "")];
    ["acceleratorTypes", "runtimeVersions"]
        .map(|what| request(account, "GET", &format!("{area}/{what}"), &query))
        .into()
}

/// To make a slice: the request for it, then the question after it until it is there.
pub fn to_create(account: &Account, asked: &SliceRequest, ask: &Ask) -> Result<Vec<ApiRequest>, ProviderError> {
    let area = account.area(&asked.id.zone);
    let name = asked.id.name.as_str();
    let (mut post, collection) = if ask.as_node {
        let mut post = request(account, "POST", &format!("{area}/nodes"), &[("nodeId", name)]);
        post.body = encoded(serde_json::to_value(body::single_node(asked, ask)?))?;
        (post, "nodes")
    } else {
        let queued = body::queued_resource(account, asked, ask)?;
        let query = [("queuedResourceId", name), ("requestId", &request_id())];
        let mut post = request(account, "POST", &format!("{area}/queuedResources"), &query);
        post.body = encoded(serde_json::to_value(queued))?;
        (post, "queuedResources")
    };
    if let Some(body) = &mut post.body {
        body.sort_all_objects();
    }
    Ok(vec![post, request(account, "GET", &format!("{area}/{collection}/{name}"), &[])])
}

/// To delete a slice: the request for it with its nodes, and what is left of them.
pub fn to_delete(account: &Account, id: &SliceId) -> Result<Vec<ApiRequest>, ProviderError> {
    check_name(&id.name)?;
    let area = account.area(&id.zone);
    let (queued, force) = (format!("{area}/queuedResources/{}", id.name), [("requestId", ""), ("force", "true")]);
    Ok(vec![
        request(account, "DELETE", &queued, &force),
        request(account, "GET", &format!("{area}/nodes"), &[("pageSize", "0"), ("pageToken", "")]),
        request(account, "DELETE", &format!("{area}/nodes/{}", id.name), &[]),
    ])
}

/// To list the slices of a zone, or of all zones for `-`.
pub fn to_list(account: &Account, zone: &str) -> Vec<ApiRequest> {
    let area = account.area(zone);
    let pages = [("pageSize", "0"), ("pageToken", "")];
    ["queuedResources", "nodes"].map(|what| request(account, "GET", &format!("{area}/{what}"), &pages)).into()
}
