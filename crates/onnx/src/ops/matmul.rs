//! Products of matrices.

use tensor::DType;
use trace::Tensor;

use super::{Answer, Rules, one};
use crate::call::{Call, cast, wide};
use crate::error::Error;

fn matmul(call: &Call<'_>) -> Answer {
    one(call.input(0)?.matmul(call.input(1)?))
}

/// `alpha · A · B + beta · C`, each of A and B transposed if asked for.
fn gemm(call: &Call<'_>) -> Answer {
    let attributes = call.attributes;
    let matrix = |at: usize, name: &str| -> Result<Tensor, Error> {
        let x = call.input(at)?;
        match x.rank() {
            2 if attributes.int(name, 0) != 0 => Ok(x.swap_axes(0, 1)),
            2 => Ok(x.clone()),
            _ => Err(Error::damaged(format!("input {at} is no matrix, but {}", x.spec()))),
        }
    };
    let mut y = matrix(0, "transA")?.matmul(&matrix(1, "transB")?);
    let (alpha, beta) = (attributes.float("alpha", 1.0), attributes.float("beta", 1.0));
    if alpha != 1.0 {
        y = y * alpha;
    }
    if let Some(c) = call.optional(2).filter(|_| beta != 0.0) {
        let c = if beta == 1.0 { c.clone() } else { c * beta };
        y = &y + &c.broadcast_to(y.dims());
    }
    one(y)
}

/// Operands one after the other; what nobody needs any more is summed as soon as it can be.
fn einsum(call: &Call<'_>) -> Answer {
    let equation: String = call.attributes.text("equation", "").chars().filter(|c| !c.is_whitespace()).collect();
    let wrong = || Error::damaged(format!("the equation `{equation}`"));
    let tensors = call.all()?;
    let (left, output) = match equation.split_once("->") {
        Some((left, output)) => (left, Some(output)),
        None => (equation.as_str(), None),
    };
    let texts: Vec<&str> = left.split(',').collect();
    if texts.len() != tensors.len() {
        return Err(wrong());
    }
    let extra = |text: &str, rank: usize| rank.checked_sub(text.chars().filter(|c| *c != '.').count());
    let most =
        texts.iter().zip(&tensors).filter(|(text, _)| text.contains("...")).map(|(text, x)| extra(text, x.rank()));
    let most = most.collect::<Option<Vec<_>>>().ok_or_else(wrong)?.into_iter().max().unwrap_or(0);
    // The axes of `...` have capitals of their own, by their distance from the last.
    let letters = |text: &str, own: usize| -> Vec<char> {
        let dots: String = (most - own..most).filter_map(|n| char::from_u32(0x391 + n as u32)).collect();
        text.replace("...", &dots).chars().collect()
    };
    let mut terms: Vec<(Vec<char>, Tensor)> = Vec::new();
    for (text, tensor) in texts.iter().zip(&tensors) {
        let own = if text.contains("...") { extra(text, tensor.rank()).ok_or_else(wrong)? } else { 0 };
        let names = letters(text, own);
        if names.len() != tensor.rank() || names.iter().any(|c| !c.is_alphabetic()) {
            return Err(wrong());
        }
        terms.push(diagonal(names, (*tensor).clone()));
    }
    let output: Vec<char> = match output {
        Some(output) => letters(output, most),
        None => {
            let all: Vec<char> = terms.iter().flat_map(|(names, _)| names.iter().copied()).collect();
            let mut once: Vec<char> =
                all.iter().copied().filter(|c| all.iter().filter(|o| *o == c).count() == 1).collect();
            once.sort_unstable();
            let mut whole = letters(if most > 0 { "..." } else { "" }, most);
            once.retain(|c| !whole.contains(c));
            whole.extend(once);
            whole
        }
    };
    let mut rest = terms.into_iter();
    let (mut names, mut value) = rest.next().ok_or_else(wrong)?;
    let rest: Vec<(Vec<char>, Tensor)> = rest.collect();
    for (n, (own, next)) in rest.iter().enumerate() {
        let later: Vec<char> = rest[n + 1..].iter().flat_map(|(names, _)| names.iter().copied()).collect();
        let is_kept = |c: &char| output.contains(c) || later.contains(c);
        (names, value) = summed(names, value, |c| own.contains(c) || is_kept(c));
        let (own, next) = summed(own.clone(), next.clone(), |c| names.contains(c) || is_kept(c));
        let all = names.iter().chain(own.iter().filter(|c| !names.contains(c))).copied();
        let result: Vec<char> = all.filter(is_kept).collect();
        let text = |names: &[char]| names.iter().collect::<String>();
        value = value.einsum(&format!("{},{}->{}", text(&names), text(&own), text(&result)), &next);
        names = result;
    }
    let (names, value) = summed(names, value, |c| output.contains(c));
    let order: Option<Vec<usize>> = output.iter().map(|c| names.iter().position(|own| own == c)).collect();
    match order.filter(|order| order.len() == names.len()) {
        Some(order) => one(value.transpose(&order)),
        None => Err(wrong()),
    }
}

/// Axes of the same name become one: its diagonal.
fn diagonal(mut names: Vec<char>, mut value: Tensor) -> (Vec<char>, Tensor) {
    while let Some((first, second)) = repeated(&names) {
        let dims = value.dims().to_vec();
        if dims[first] != dims[second] {
            break;
        }
        let (row, column) = (Tensor::iota(DType::I32, &dims, first), Tensor::iota(DType::I32, &dims, second));
        value = row.equals(&column).select(&value, &value.zeros_like()).sum(&[second]);
        names.remove(second);
    }
    (names, value)
}

fn repeated(names: &[char]) -> Option<(usize, usize)> {
    (0..names.len()).find_map(|second| Some((names[..second].iter().position(|c| *c == names[second])?, second)))
}

fn summed(names: Vec<char>, value: Tensor, keep: impl Fn(&char) -> bool) -> (Vec<char>, Tensor) {
    let axes: Vec<usize> = (0..names.len()).filter(|axis| !keep(&names[*axis])).collect();
    let left = names.into_iter().filter(|c| keep(c)).collect();
    let value = if axes.is_empty() { value } else { value.sum(&axes) };
    (left, value)
}

/// A matrix's determinant, by elimination with the largest pivot of each column.
fn determinant(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let rank = x.rank();
    if rank < 2 || x.dims()[rank - 1] != x.dims()[rank - 2] || x.dims()[rank - 1] > 64 {
        return Err(Error::unsupported(format!("the determinant of {}", x.spec())));
    }
    let n = x.dims()[rank - 1];
    let batch: usize = x.dims()[..rank - 2].iter().product();
    let mut a = cast(x, wide(x.dtype())).reshape(&[batch, n, n]);
    let mut result = Tensor::ones(a.dtype(), &[batch]);
    for column in 0..n {
        let size = n - column;
        let pivot = a.at(2, 0).abs().argmax(1);
        let chosen = pivot.one_hot(size, a.dtype());
        let row = (chosen.expand(-1) * &a).sum(&[1]);
        let first = a.at(1, 0);
        // The chosen row and the first change places, which changes the sign.
        let is_first = pivot.equals(&Tensor::scalar(DType::I32, 0.0));
        let one = Tensor::ones(a.dtype(), &[batch]);
        let diagonal = row.at(1, 0);
        result = result * &diagonal * is_first.select(&one, &(-&one));
        if size == 1 {
            break;
        }
        let swapped = &a + &(chosen.expand(-1) * (&first - &row).expand(1));
        let below = swapped.slice(1, 1..size);
        let is_zero = diagonal.equals(&Tensor::scalar(a.dtype(), 0.0));
        let divisor = is_zero.select(&one, &diagonal);
        let factor = below.at(2, 0) / &divisor.expand(-1);
        a = (below - factor.expand(-1) * row.expand(1)).slice(2, 1..size);
    }
    one(cast(&result.reshape(&x.dims()[..rank - 2]), x.dtype()))
}

pub(super) const RULES: Rules = &[("Det", determinant), ("Einsum", einsum), ("Gemm", gemm), ("MatMul", matmul)];
