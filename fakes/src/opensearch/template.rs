//! Requests for composable index templates, and the template selection for a new index.

use super::{
    call::Call,
    cluster::Cluster,
    glob,
    index_template::Template,
    response::{ApiResponse, Exception},
};

/// `PUT /_index_template/<name>`
pub(super) fn put(
    cluster: &mut Cluster,
    call: &Call,
    name: &str,
) -> Result<ApiResponse, Exception> {
    call.allow(&["create", "cause"])?;
    let template = Template::read(&call.members()?)?;
    let clash = cluster.templates.iter().find(|(other_name, other)| {
        other_name.as_str() != name
            && other.priority == template.priority
            && other.overlaps(&template)
    });
    if let Some((other_name, other)) = clash {
        return Err(Exception::illegal_argument(format!(
            "index template [{name}] has index patterns [{}] matching patterns from existing templates [{other_name}] with \
             patterns ({other_name} => [{}]) that have the same priority [{}], multiple index templates may not match during index \
             creation, please use a different priority",
            template.patterns.join(", "),
            other.patterns.join(", "),
            template.priority
        )));
    }
    cluster.templates.insert(name.to_owned(), template);
    Ok(ApiResponse::acknowledged())
}

/// `DELETE /_index_template/<name>`
pub(super) fn delete(
    cluster: &mut Cluster,
    call: &Call,
    name: &str,
) -> Result<ApiResponse, Exception> {
    call.allow(&[])?;
    match cluster.templates.remove(name) {
        Some(_) => Ok(ApiResponse::acknowledged()),
        None => Err(Exception::new(
            404,
            "index_template_missing_exception",
            format!("index_template [{name}] missing"),
        )),
    }
}

/// Returns the template of a new index: the matching one with the highest priority. Others are
/// ignored.
pub(super) fn matching<'c>(cluster: &'c Cluster, index: &str) -> Option<&'c Template> {
    let is_matching = |template: &&Template| {
        template
            .patterns
            .iter()
            .any(|pattern| glob::matches(pattern, index))
    };
    cluster
        .templates
        .values()
        .filter(is_matching)
        .max_by_key(|template| template.priority)
}
