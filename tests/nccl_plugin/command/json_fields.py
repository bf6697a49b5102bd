"""The fields of a JSON document, and the same document with another value of one."""
import json


def leaves_of(document, path=()):
    """Paths of all values that are no objects or lists of them."""
    if isinstance(document, (dict, list)):
        items = document.items() if isinstance(document, dict) else enumerate(document)
        for name, value in items:
            yield from leaves_of(value, (*path, name))
    else:
        yield path


def value_at(document, path):
    for name in path:
        document = document[name]
    return document


def with_value(document, path, value):
    changed = json.loads(json.dumps(document))
    value_at(changed, path[:-1])[path[-1]] = value
    return changed


def variations(value):
    """Other values of the same kind."""
    if isinstance(value, str):
        return [value + "x", "log"]
    half = value // 2 if isinstance(value, int) else value / 2
    return [value * 2, value * 10, value * 1000, half, value / 10, value / 1000, value + 1]
