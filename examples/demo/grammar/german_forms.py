"""German inflection: articles, adjectives, nouns, pronouns and verbs."""

from __future__ import annotations

import re
from typing import Optional

from grammar.entries import Case, Gender, Noun, Verb

_DEFINITE = {
    "m": "der den dem des",
    "f": "die die der der",
    "n": "das das dem des",
    "p": "die die den der",
}
# '-' is no ending.
_STRONG = {"m": "er en em es", "f": "e e er er", "n": "es es em es", "p": "e e en er"}
_EIN_WORD = {"m": "- en em es", "f": "e e er er", "n": "- - em es", "p": "e e en er"}
_WEAK_ADJECTIVE = {"m": "e en en en", "f": "e e en en", "n": "e e en en", "p": "en en en en"}
_MIXED_ADJECTIVE = {"m": "er en en en", "f": "e e en en", "n": "es es en en", "p": "en en en en"}
_STRONG_ADJECTIVE = {"m": "er en em en", "f": "e e er er", "n": "es es em en", "p": "e e en er"}
_ADJECTIVE = {"weak": _WEAK_ADJECTIVE, "mixed": _MIXED_ADJECTIVE, "strong": _STRONG_ADJECTIVE}

_CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
}

# By person and number: nominative, accusative, dative; the third person singular by gender.
_PRONOUNS = {
    (1, False): "ich mich mir",
    (2, False): "du dich dir",
    (1, True): "wir uns uns",
    (3, True): "sie sie ihnen",
    "m": "er ihn ihm",
    "f": "sie sie ihr",
    "n": "es es ihm",
}
_POSSESSIVES = {(1, False): "mein", (2, False): "dein", (1, True): "unser", (3, True): "ihr"}
_INTERROGATIVES = {True: "wer wen wem wessen", False: "was was was wessen"}

# First and second person singular; the rest follows from the principal parts.
_IRREGULAR_PRESENT = {
    "sein": "bin bist ist sind",
    "haben": "habe hast hat haben",
    "werden": "werde wirst wird werden",
    "wissen": "weiß weißt weiß wissen",
    "können": "kann kannst kann können",
    "müssen": "muss musst muss müssen",
    "wollen": "will willst will wollen",
    "dürfen": "darf darfst darf dürfen",
    "sollen": "soll sollst soll sollen",
    "möchten": "möchte möchtest möchte möchten",
}
_IRREGULAR_PRETERITE = {
    "sein": "war",
    "haben": "hatte",
    "können": "konnte",
    "müssen": "musste",
    "wollen": "wollte",
    "dürfen": "durfte",
    "sollen": "sollte",
}


def _declension_class(gender: Optional[Gender], plural: bool) -> str:
    return "p" if plural or gender is None else gender.value


def _pick(table: dict[str, str], gender: Optional[Gender], plural: bool, case: Case) -> str:
    ending = table[_declension_class(gender, plural)].split()[case.value]
    return "" if ending == "-" else ending


def definite_article(gender: Optional[Gender], plural: bool, case: Case) -> str:
    """The forms of der, die, das."""
    return _pick(_DEFINITE, gender, plural, case)


def der_word(stem: str, gender: Gender, plural: bool, case: Case) -> str:
    """Decline dies- or wie viel- like der."""
    return stem + _pick(_STRONG, gender, plural, case)


def ein_word(stem: str, gender: Gender, plural: bool, case: Case) -> str:
    """Decline ein, kein or a possessive."""
    return stem + _pick(_EIN_WORD, gender, plural, case)


def adjective(stem: str, declension: str, gender: Gender, plural: bool, case: Case) -> str:
    """Decline an adjective; `declension` is weak (after der), mixed (after ein) or strong."""
    return stem + _pick(_ADJECTIVE[declension], gender, plural, case)


def relative_pronoun(gender: Gender, plural: bool, case: Case) -> str:
    """The relative pronoun, which differs from the article in denen, dessen and deren."""
    if case is Case.GENITIVE:
        return "dessen" if not plural and gender is not Gender.FEMININE else "deren"
    if plural and case is Case.DATIVE:
        return "denen"
    return definite_article(gender, plural, case)


def personal_pronoun(person: int, plural: bool, gender: Optional[Gender], case: Case) -> str:
    """The personal pronoun in nominative, accusative or dative."""
    key = gender.value if person == 3 and not plural and gender else (person, plural)
    return _PRONOUNS[key].split()[case.value]


def reflexive_pronoun(person: int, plural: bool) -> str:
    """The accusative reflexive pronoun."""
    return "sich" if person == 3 else personal_pronoun(person, plural, None, Case.ACCUSATIVE)


def possessive_stem(person: int, plural: bool, gender: Optional[Gender]) -> str:
    """The uninflected possessive: mein, dein, sein, ihr, unser."""
    if person == 3 and not plural:
        return "ihr" if gender is Gender.FEMININE else "sein"
    return _POSSESSIVES[person, plural]


def interrogative(human: bool, case: Case) -> str:
    """Who or what."""
    return _INTERROGATIVES[human].split()[case.value]


def noun(entry: Noun, plural: bool, case: Case) -> str:
    """Decline a noun, weak masculines (den Studenten) and dative plurals (den Tagen) included."""
    if plural:
        takes_n = case is Case.DATIVE and not re.search(r"[ns]$", entry.plural)
        return entry.plural + ("n" if takes_n else "")
    is_weak = entry.gender is Gender.MASCULINE and not entry.genitive.endswith("s")
    if case is Case.GENITIVE or (is_weak and case is not Case.NOMINATIVE):
        return entry.genitive
    return entry.german


def contract(preposition: str, phrase: str) -> str:
    """Put a preposition before a phrase, fused with its article where German does so."""
    article, space, rest = phrase.partition(" ")
    fused = _CONTRACTIONS.get(f"{preposition} {article}")
    return f"{fused}{space}{rest}" if fused else f"{preposition} {phrase}"


def present(infinitive: str, third_person: str, person: int, plural: bool) -> str:
    """The present tense, without a separable prefix."""
    if infinitive in _IRREGULAR_PRESENT:
        return _IRREGULAR_PRESENT[infinitive].split()[3 if plural else person - 1]
    if plural:
        return infinitive
    if person == 3:
        return third_person
    if person == 1:
        return infinitive[:-1] if infinitive.endswith("en") else infinitive[:-1] + "e"
    stem = third_person[:-1]
    return stem + ("t" if re.search(r"[sßxz]$", stem) else "st")


def preterite(form: str, person: int, plural: bool) -> str:
    """The preterite, from its first person singular."""
    if plural:
        return form + ("n" if form.endswith("e") else "en")
    if person == 2:
        return form + ("est" if re.search(r"[sßtd]$", form) else "st")
    return form


def auxiliary_present(infinitive: str, person: int, plural: bool) -> str:
    """The present of sein, haben, werden and the modals."""
    return present(infinitive, "", person, plural)


def auxiliary_preterite(infinitive: str, person: int, plural: bool) -> str:
    """The preterite of sein, haben and the modals."""
    return preterite(_IRREGULAR_PRETERITE[infinitive], person, plural)


def zu_infinitive(verb: Verb) -> str:
    """The infinitive with zu, which a separable prefix encloses: anzurufen."""
    return f"{verb.prefix}zu{verb.infinitive}" if verb.prefix else f"zu {verb.infinitive}"
