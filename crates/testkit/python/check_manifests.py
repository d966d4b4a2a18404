"""Checks Kubernetes manifests against published schemas: core kinds by kubernetes-validate, others by their CRDs.

Reads {"yaml": text, "json": [documents]} on standard input; the first argument is the folder of CRDs. Prints a line for each
fault, `NUMBER: path: message`, and the number of documents at the end.
"""

import json
import pathlib
import sys

import jsonschema
import kubernetes_validate
import yaml

VERSION = "1.33"
# The reader in C, where it is there: a CRD has 16,000 lines.
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def strict(schema):
    """The same schema, but what it does not know is a fault, as an API server has it that is asked to be strict."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(part) for key, part in schema.items()}
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if isinstance(made.get("properties"), dict) and schema.get("type") == "object":
        if not schema.get("x-kubernetes-preserve-unknown-fields") and "additionalProperties" not in made:
            made["additionalProperties"] = False
    return made


def schemas(folder):
    found = {}
    for path in pathlib.Path(folder).glob("*.yaml"):
        definition = yaml.load(path.read_text(), Loader)
        spec = definition["spec"]
        for version in spec["versions"]:
            schema = strict(version["schema"]["openAPIV3Schema"])
            # The API server's own part.
            schema["properties"]["metadata"] = {"type": "object"}
            found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def faults(document, known):
    schema = known.get((document["apiVersion"], document["kind"]))
    if schema is None:
        try:
            kubernetes_validate.validate(document, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"{'.'.join(map(str, error.path))}: {error.message}"
        return
    for error in jsonschema.Draft202012Validator(schema).iter_errors(document):
        yield f"{'.'.join(map(str, error.absolute_path))}: {error.message[:300]}"


given = json.load(sys.stdin)
known = schemas(sys.argv[1])
if list(yaml.safe_load_all(given["yaml"])) != given["json"]:
    print("the YAML does not say what the JSON says")
for number, document in enumerate(given["json"]):
    for fault in faults(document, known):
        print(f"{number}: {fault}")
print(f"{len(given['json'])} documents")
