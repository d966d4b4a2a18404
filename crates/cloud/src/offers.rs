//! What a zone has: accelerator types, runtime versions and quotas, asked before anything is made.

use fleet::provider::ProviderError;

use crate::CloudTpu;

/// Other names that are shown beside a wrong one.
const NEAREST: usize = 3;

/// What a zone offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// Names of slices.
    pub accelerator_types: Vec<String>,
    /// Images of machines.
    pub runtime_versions: Vec<String>,
}

/// A limit on what may be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Its name, such as `TPUV5sLitepodPerProjectPerZoneForTPUAPI`.
    pub id: String,
    /// What it counts, such as `tpu.googleapis.com/v5litepod`.
    pub metric: String,
    /// The zone or region; none: everywhere.
    pub location: Option<String>,
    /// The limit; -1 is none.
    pub limit: i64,
}

impl Offers {
    /// Whether a zone has what is asked for, with the nearest that it has.
    pub fn check(&self, zone: &str, accelerator_type: &str, runtime_version: &str) -> Result<(), ProviderError> {
        for (what, asked, offered) in [
            ("accelerator type", accelerator_type, &self.accelerator_types),
            ("runtime version", runtime_version, &self.runtime_versions),
        ] {
            if !offered.iter().any(|one| one == asked) {
                let near = nearest(asked, offered).join(", ");
                let near = if near.is_empty() { "none at all".into() } else { near };
                return Err(ProviderError::Invalid(format!("{zone} has no {what} {asked:?}; it has {near}")));
            }
        }
        Ok(())
    }
}

/// The likest of a list: with the longest common beginning, then the nearest in length.
fn nearest(asked: &str, offered: &[String]) -> Vec<String> {
    let mut offered = offered.to_vec();
    offered.sort_by_key(|one| {
        let common = one.bytes().zip(asked.bytes()).take_while(|(a, b)| a == b).count();
        (std::cmp::Reverse(common), one.len().abs_diff(asked.len()), one.clone())
    });
    offered.truncate(NEAREST);
    offered
}

impl CloudTpu {
    /// The zones that have TPUs for this project.
    pub fn zones(&self) -> Result<Vec<String>, ProviderError> {
        let name = format!("projects/{}", self.account.project);
        let mut found = Vec::new();
        let ask = async |token: &str| self.tpu.list_locations().set_name(&name).set_page_token(token).send().await;
        self.wait(self.pages(ask, |page| {
            found.extend(page.locations.into_iter().map(|location| location.location_id));
            page.next_page_token
        }))?;
        found.sort();
        Ok(found)
    }

    /// What a zone offers.
    pub fn offers(&self, zone: &str) -> Result<Offers, ProviderError> {
        let area = self.account.area(zone);
        let mut offers = Offers::default();
        let ask =
            async |token: &str| self.tpu.list_accelerator_types().set_parent(&area).set_page_token(token).send().await;
        self.wait(self.pages(ask, |page| {
            offers.accelerator_types.extend(page.accelerator_types.into_iter().map(|one| one.r#type));
            page.next_page_token
        }))?;
        let ask =
            async |token: &str| self.tpu.list_runtime_versions().set_parent(&area).set_page_token(token).send().await;
        self.wait(self.pages(ask, |page| {
            offers.runtime_versions.extend(page.runtime_versions.into_iter().map(|one| one.version));
            page.next_page_token
        }))?;
        Ok(offers)
    }

    /// The project's quotas of TPUs, by zone and region.
    pub fn quotas(&self) -> Result<Vec<Quota>, ProviderError> {
        let parent = format!("projects/{}/locations/global/services/tpu.googleapis.com", self.account.project);
        let mut found = Vec::new();
        let ask =
            async |token: &str| self.quotas.list_quota_infos().set_parent(&parent).set_page_token(token).send().await;
        self.wait(self.pages(ask, |page| {
            for info in page.quota_infos {
                for one in &info.dimensions_infos {
                    let place = one.dimensions.get("zone").or_else(|| one.dimensions.get("region")).cloned();
                    let limit = one.details.as_ref().map_or(-1, |details| details.value);
                    let (id, metric) = (info.quota_id.clone(), info.metric.clone());
                    found.push(Quota { id, metric, location: place, limit });
                }
            }
            page.next_page_token
        }))?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest() {
        let accelerator_types = ["v5litepod-8", "v5litepod-16", "v6e-8"].map(String::from).to_vec();
        let offers = Offers { accelerator_types, runtime_versions: vec!["v2-alpha-tpuv5-lite".into()] };
        assert_eq!(offers.check("z", "v5litepod-16", "v2-alpha-tpuv5-lite"), Ok(()));
        let error = offers.check("z", "v5litepod-17", "v2-alpha-tpuv5-lite").unwrap_err().to_string();
        assert!(error.ends_with("z has no accelerator type \"v5litepod-17\"; it has v5litepod-16, v5litepod-8, v6e-8"));
        let error = offers.check("z", "v6e-8", "v2").unwrap_err().to_string();
        assert!(error.ends_with("no runtime version \"v2\"; it has v2-alpha-tpuv5-lite"), "{error}");
    }
}
