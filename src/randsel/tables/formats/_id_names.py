"""Search in the names of columns: their words, and usual names of columns with identifiers of samples."""

import re
from collections.abc import Iterable, Sequence

import numpy as np


def to_words(text: str) -> frozenset[str]:
    """Return the set of words of a text, which spaces separate."""
    return frozenset(text.split())


#: Words that, followed by one of `_NUMBER_WORDS`, name an id, such as "sample number".
_OWNERS = to_words(
    "sample patient subject donor participant individual person specimen animal mouse volunteer proband case record"
    " row aliquot array chip slide observation obs pat subj"
)
#: Words that name an id on their own.
_SUBJECT_WORDS = to_words("patient subject donor participant individual person animal mouse volunteer proband")
_ID_WORDS = to_words("id ids identifier uid uuid")
_NUMBER_WORDS = to_words("no nr num number code key barcode name index")
_ID_NAMES = to_words(
    "index rownames rowname rownumber barcode sampleid patientid subjectid donorid participantid sampleno patientno"
    " subjectno mrn rid pid sid iid eid ptid subjid usubjid studyid rowid"
)
#: Symbols of genes that are also names of ids.
_GENES = frozenset({"IDS"})
#: Parts that a name must contain to be worth splitting into words, which is slow for 50 000 names.
_ID_PARTS = tuple(
    to_words(
        "id no nr num code key name index level row mrn patient subject donor person animal mouse volunteer proband"
    )
)


def split_words(name: str) -> list[str]:
    """Return the words of a name in lower case: SampleId, sample_id and Sample.ID have the words sample and id.

    Digits stay part of a word, so that the genes ID1 to ID4 are one word each, and are not ids.
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return [word.lower() for word in re.split(r"[^A-Za-z0-9#]+", spaced) if word]


def find_names(names: Sequence[str], fragments: Iterable[str]) -> list[int]:
    r"""Return the indices of the names that contain one of the fragments, in lower case; "\0" is the start of a name.

    One search in all names is faster than one in each.
    """
    lowered = [name.lower() for name in names]
    ends, text = np.cumsum([len(name) + 1 for name in lowered]), "\0" + "\0".join(lowered)
    hits: list[int] = []
    for fragment in fragments:
        position = text.find(fragment)
        while position >= 0:
            hits.append(position)
            position = text.find(fragment, position + 1)
    indices: list[int] = np.unique(np.searchsorted(ends, hits, side="right")).tolist()
    return indices


def is_id_name(name: str) -> bool:
    """Return whether the name of a column is a usual name of identifiers."""
    words = split_words(name) or [""]
    if name in _GENES:
        return False
    if re.fullmatch(r"Unnamed: \d+(_level_\d+)?|level_\d+", name) or "".join(words) in _ID_NAMES:
        return True
    if words[-1] in _ID_WORDS or (len(words) == 1 and words[0] in _SUBJECT_WORDS):
        return True
    if len(words) == 2 and words[0] == "id" and words[1] in _OWNERS:
        return True
    return len(words) > 1 and words[-1] in _NUMBER_WORDS and words[-2] in _OWNERS


def find_id_names(names: Sequence[str]) -> list[int]:
    """Return the indices of the names that are usual names of identifiers."""
    return [j for j in find_names(names, _ID_PARTS) if is_id_name(names[j])]
