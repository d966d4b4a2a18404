//! How a structure of tensors is visited and rebuilt, field by field.

use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Field, Fields, Index, parse_quote};

use crate::home;

/// What `#[tree(...)]` says of a field.
#[derive(Default)]
struct Marks {
    is_skipped: bool,
    name: Option<String>,
}

fn marks(field: &Field) -> Result<Marks, Error> {
    let mut marks = Marks::default();
    for attr in field.attrs.iter().filter(|attr| attr.path().is_ident("tree")) {
        attr.parse_nested_meta(|meta| {
            if meta.path.is_ident("skip") {
                marks.is_skipped = true;
                Ok(())
            } else if meta.path.is_ident("rename") {
                marks.name = Some(meta.value()?.parse::<syn::LitStr>()?.value());
                Ok(())
            } else {
                Err(meta.error("expected `skip` or `rename = \"name\"`"))
            }
        })?;
    }
    Ok(marks)
}

/// How the fields of a structure or variant are visited and rebuilt, given what binds each of them.
fn fields(
    home: &Tokens,
    fields: &Fields,
    bind: &dyn Fn(usize, &Field) -> Tokens,
) -> Result<(Vec<Tokens>, Tokens), Error> {
    let (mut visits, mut rebuilt) = (Vec::new(), Vec::new());
    for (n, field) in fields.iter().enumerate() {
        let marks = marks(field)?;
        let own = field
            .ident
            .as_ref()
            .map_or_else(|| n.to_string(), |name| name.to_string().trim_start_matches("r#").to_owned());
        let name = marks.name.unwrap_or(own);
        let value = bind(n, field);
        let made = if marks.is_skipped {
            quote!(::core::clone::Clone::clone(#value))
        } else {
            visits.push(quote!(path.within(#name, |path| #home::Tree::visit(#value, path, f));));
            quote!(path.within(#name, |path| #home::Tree::map(#value, path, f)))
        };
        rebuilt.push(match &field.ident {
            Some(ident) => quote!(#ident: #made),
            None => quote!(#made),
        });
    }
    let rebuilt = match fields {
        Fields::Named(_) => quote!({ #(#rebuilt),* }),
        Fields::Unnamed(_) => quote!(( #(#rebuilt),* )),
        Fields::Unit => quote!(),
    };
    Ok((visits, rebuilt))
}

/// The implementation of `trace::Tree`.
pub(crate) fn derived(input: &DeriveInput) -> Result<Tokens, Error> {
    let name = &input.ident;
    let home = home::path(input)?;
    let (visit, map) = match &input.data {
        Data::Struct(data) => {
            let (visits, rebuilt) = fields(&home, &data.fields, &|n, field| match &field.ident {
                Some(ident) => quote!(&self.#ident),
                None => {
                    let index = Index::from(n);
                    quote!(&self.#index)
                }
            })?;
            (quote!(#(#visits)*), quote!(#name #rebuilt))
        }
        Data::Enum(data) => {
            let (mut visit_arms, mut map_arms) = (Vec::new(), Vec::new());
            for variant in &data.variants {
                let ident = &variant.ident;
                let names: Vec<_> = (0..variant.fields.len()).map(|n| format_ident!("field_{n}")).collect();
                let (visits, rebuilt) = fields(&home, &variant.fields, &|n, _| {
                    let name = &names[n];
                    quote!(#name)
                })?;
                let pattern = match &variant.fields {
                    Fields::Named(list) => {
                        let own = list.named.iter().map(|field| &field.ident);
                        quote!({ #(#own: #names),* })
                    }
                    Fields::Unnamed(_) => quote!(( #(#names),* )),
                    Fields::Unit => quote!(),
                };
                visit_arms.push(quote!(#[allow(unused_variables)] #name::#ident #pattern => { #(#visits)* }));
                map_arms.push(quote!(#name::#ident #pattern => #name::#ident #rebuilt,));
            }
            (quote!(match self { #(#visit_arms)* }), quote!(match self { #(#map_arms)* }))
        }
        Data::Union(_) => return Err(Error::new_spanned(name, "Tree is derived for structs and enums")),
    };
    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(#home::Tree));
    }
    let (generics, arguments, bounds) = generics.split_for_impl();
    Ok(quote! {
        impl #generics #home::Tree for #name #arguments #bounds {
            #[allow(unused_variables)]
            fn visit(&self, path: &mut #home::Path, f: &mut dyn FnMut(&#home::Path, &#home::Tensor)) {
                #visit
            }

            #[allow(unused_variables)]
            fn map(
                &self,
                path: &mut #home::Path,
                f: &mut dyn FnMut(&#home::Path, &#home::Tensor) -> #home::Tensor,
            ) -> Self {
                #map
            }
        }
    })
}
