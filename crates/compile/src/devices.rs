//! Which devices of a slice run a program: our own checks, because the compiler makes none.

use chips::Slice;

use crate::error::CompileError;

/// Replicas, partitions and, where the compiler needs them, the device of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) replicas: u32,
    pub(crate) partitions: u32,
    pub(crate) device_ids: Option<Vec<i64>>,
}

/// Checks that the program's devices are there and are named once each.
pub(crate) fn assign(
    slice: &Slice,
    replicas: u32,
    partitions: u32,
    device_ids: Option<&[i64]>,
) -> Result<Assignment, CompileError> {
    let refuse = |message: String| Err(CompileError::Devices(message));
    let Some(needed) = replicas.checked_mul(partitions).filter(|&n| n > 0) else {
        return refuse(format!("{replicas} replicas of {partitions} partitions are not a number of devices"));
    };
    let have = slice.devices();
    if needed > have {
        return refuse(format!(
            "the program runs on {needed} devices ({replicas} replicas × {partitions} partitions), but {slice} has {have}"
        ));
    }
    let valid: Vec<i64> = slice.device_ids().filter_map(|id| i64::try_from(id).ok()).collect();
    let device_ids = match device_ids {
        Some(ids) => {
            if ids.len() != needed as usize {
                return refuse(format!("{} device ids are given for {needed} devices", ids.len()));
            }
            let known: std::collections::HashSet<i64> = valid.iter().copied().collect();
            let mut seen = std::collections::HashSet::new();
            for id in ids {
                if !known.contains(id) {
                    let (first, last) = (valid.first().unwrap_or(&0), valid.last().unwrap_or(&0));
                    return refuse(format!("{slice} has no device {id}; its ids run from {first} to {last}"));
                }
                if !seen.insert(id) {
                    return refuse(format!("device {id} is given twice"));
                }
            }
            Some(ids.to_vec())
        }
        // Several slices have ids with gaps, which the compiler does not guess.
        None if slice.num_slices() > 1 => Some(valid.into_iter().take(needed as usize).collect()),
        None => None,
    };
    Ok(Assignment { replicas, partitions, device_ids })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(slice: &str, replicas: u32, partitions: u32, ids: Option<&[i64]>, expected: &str) {
        let slice: Slice = slice.parse().unwrap();
        let got = match assign(&slice, replicas, partitions, ids) {
            Ok(assignment) => format!("{:?}", assignment.device_ids),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected);
    }

    #[test]
    fn devices_are_checked_before_the_compiler_sees_them() {
        check("v5e-4", 1, 4, None, "None");
        check("v5e-4", 1, 4, Some(&[3, 2, 1, 0]), "Some([3, 2, 1, 0])");
        check("v5e-4", 1, 4, Some(&[0, 1, 2, 2]), "device 2 is given twice");
        check("v5e-4", 1, 4, Some(&[0, 1]), "2 device ids are given for 4 devices");
        check("v5e-4", 1, 2, Some(&[0, 7]), "v5litepod-4 has no device 7; its ids run from 0 to 3");
        check("v5e-4", 1, 2, Some(&[0, -1]), "v5litepod-4 has no device -1; its ids run from 0 to 3");
        check("v5e-4", 2, 4, None, "the program runs on 8 devices (2 replicas × 4 partitions), but v5litepod-4 has 4");
        check("v5e-4", 0, 4, None, "0 replicas of 4 partitions are not a number of devices");
        check("2xv5e-4", 1, 8, None, "Some([100000, 100001, 100002, 100003, 200000, 200001, 200002, 200003])");
    }
}
