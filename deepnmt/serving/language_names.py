"""English names of languages, for lists of them; another language is named by its code."""

import re

from deepnmt.text.languages import main_language

CODES_AND_NAMES = """
    ar:Arabic bg:Bulgarian bn:Bengali ca:Catalan cs:Czech da:Danish de:German el:Greek en:English es:Spanish
    et:Estonian fa:Persian fi:Finnish fr:French ga:Irish gu:Gujarati ha:Hausa he:Hebrew hi:Hindi hr:Croatian
    hu:Hungarian hy:Armenian id:Indonesian is:Icelandic it:Italian ja:Japanese ka:Georgian kk:Kazakh km:Khmer
    ko:Korean lt:Lithuanian lv:Latvian mk:Macedonian mn:Mongolian mr:Marathi ms:Malay my:Burmese nb:Norwegian
    ne:Nepali nl:Dutch no:Norwegian pl:Polish ps:Pashto pt:Portuguese ro:Romanian ru:Russian si:Sinhala sk:Slovak
    sl:Slovenian sq:Albanian sr:Serbian sv:Swedish sw:Swahili ta:Tamil te:Telugu th:Thai tr:Turkish uk:Ukrainian
    ur:Urdu uz:Uzbek vi:Vietnamese zh:Chinese
"""
NAMES = dict(re.findall(r"(\w+):(\w+)", CODES_AND_NAMES))


def language_name(language: str) -> str:
    """Return such as German for de, and German (de-AT) for de-AT."""
    name = NAMES.get(main_language(language))
    if name is None:
        return language
    return name if language == main_language(language) else f"{name} ({language})"
