# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What the people of the sample world ask, and the document that each should be shown first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NO_SHARED_WORD: Final = "no shared word"
RESTRICTED: Final = "restricted"  # somebody else may read the answer, the asker may not
ABSENT: Final = "absent"  # nobody has a document about it
TWO_READERS: Final = "two readers"  # another asks the same and is shown something else, or his own right to it
ARCHIVE: Final = "archive"
PAGE: Final = "page"
CARD: Final = "card"
NOTE: Final = "note"
VIEW_ONLY: Final = "view only"
EXACT: Final = "exact"
GERMAN: Final = "german"
FRENCH: Final = "french"
SPANISH: Final = "spanish"
GREEK: Final = "greek"
JAPANESE: Final = "japanese"


@dataclass(frozen=True, slots=True)
class Question:
    """expected: file name or card title of the first hit, None when nothing may show; page: of a PDF, 1-based."""

    user: str
    text: str
    expected: str | None
    why: str
    page: int | None = None


_OTHER_WORDS: Final = (
    Question("bob", "How long may a new dad stay with his baby?", "Parental leave.md", NO_SHARED_WORD),
    Question("alice", "Which nurse looks after my elderly mother?", "Mum care plan.md", NO_SHARED_WORD),
    Question("bob", "Why does the walkway wobble when crowds cross it?", "Vibration assessment.md", NO_SHARED_WORD),
    Question("carol", "Which customers still have not settled their bills?", "Late payers.md", NO_SHARED_WORD),
    Question("bob", "Where can cyclists wash before they begin work?", "Bike store and showers.md", NO_SHARED_WORD),
    Question("alice", "Who inherits my possessions when I die?", "Will and executors.docx", NO_SHARED_WORD),
    Question(
        "carol",
        "Which financial commitments towards the lender might we breach?",
        "Bank covenants.md",
        NO_SHARED_WORD,
    ),
    Question("bob", "How much did my beekeeping yield?", "Bees and hives.md", NO_SHARED_WORD),
    Question("bob", "Are my family photos safe if a disk dies?", "Home server backup.md", NO_SHARED_WORD),
    Question("alice", "How loud will it get for people studying?", "Acoustic report.pdf", NO_SHARED_WORD, page=2),
    Question(
        "alice",
        "Does the old teaching block contain toxic materials?",
        "Asbestos survey.pdf",
        NO_SHARED_WORD,
        page=2,
    ),
    Question("bob", "How do I expose misconduct anonymously?", "Speaking up.md", NO_SHARED_WORD),
    Question("bob", "How do we get out when the office burns?", "Fire drill and evacuation.docx", NO_SHARED_WORD),
    Question(
        "alice",
        "What should I do when the basement is full of water again?",
        "Cellar flood.md",
        NO_SHARED_WORD,
    ),
    Question("bob", "What did the doctor find wrong with my leg?", "Knee scan letter.txt", NO_SHARED_WORD),
    Question("bob", "How do I get my photocopier unstuck?", "Printer and plotter.md", NO_SHARED_WORD),
    Question("bob", "Which pastry must someone allergic to nuts avoid?", "Allergen list.md", NO_SHARED_WORD),
)

# Neither a document about it that the asker may read, nor one that shares a content word with the question.
_NOTHING: Final = (
    Question("alice", "Whose salaries were increased?", None, RESTRICTED),
    Question("bob", "Whose salaries were increased?", None, RESTRICTED),
    Question("alice", "Is the meniscus torn?", None, RESTRICTED),
    Question("carol", "Is the meniscus torn?", None, RESTRICTED),
    Question("carol", "How many mites do the beehives have?", None, RESTRICTED),
    Question("carol", "Who are the guardians and executors?", None, RESTRICTED),
    Question("bob", "Who are the guardians and executors?", None, RESTRICTED),
    Question("bob", "leptospirosis booster for the terrier", None, RESTRICTED),
    Question("bob", "motorcycle brake pads", None, ABSENT),
    Question("alice", "How do I apply for a Canadian visa?", None, ABSENT),
    Question("alice", "Why were the dinosaurs extinguished?", None, ABSENT),
    Question("carol", "Is our hamster diabetic?", None, ABSENT),
    Question("carol", "Who invented the accordion?", None, ABSENT),
    Question("bob", "Which opera did Verdi compose?", None, ABSENT),
    Question("alice", "How do volcanoes erupt?", None, ABSENT),
)

_BY_READER: Final = (
    Question("bob", "What is the maximum price of a hotel per night?", "Travel policy 2026.pdf", TWO_READERS, page=2),
    Question("carol", "What is the maximum price of a hotel per night?", "Travel policy 2026.pdf", TWO_READERS, page=2),
    Question("carol", "Travel policy 2023: hotel limit", "Travel policy 2023.pdf", ARCHIVE, page=2),
    Question("carol", "What did the auditors criticise in 2022?", "Audit letter 2022.md", ARCHIVE),
    Question("carol", "Whose salaries were increased?", "Salary review 2026.md", TWO_READERS),
    Question("bob", "Is the meniscus torn?", "Knee scan letter.txt", TWO_READERS),
    Question("bob", "How many mites do the beehives have?", "Bees and hives.md", TWO_READERS),
    Question("alice", "Who are the guardians and executors?", "Will and executors.docx", TWO_READERS),
    Question("alice", "leptospirosis booster for the terrier", "Pepper at the vet.md", TWO_READERS),
    Question("alice", "what to pack", "Porto packing list.md", TWO_READERS),
    Question("bob", "what to pack", "Hut to hut packing.md", TWO_READERS),
    Question("bob", "What fee do we want from the council for the library?", "Fee negotiation notes.docx", VIEW_ONLY),
    Question("bob", "Which prize did our swimming hall win?", "Competition jury report.pdf", VIEW_ONLY),
)

_BY_KIND: Final = (
    Question("alice", "Which chairs are we testing for comfort?", "Chairs one can sit on for four hours", CARD),
    Question("bob", "Who comes to repair the cracked oven?", "Mason for the crack beside the oven mouth", CARD),
    Question("carol", "What do I have to tell the bank before February?", "Ring Mr Lacey before February", CARD),
    Question("alice", "What should I pack for Porto?", "Porto packing list.md", NOTE),
    Question("alice", "How long does the plum cake stay in the oven?", "Plum cake.md", NOTE),
    Question("carol", "How long does the plum cake stay in the oven?", "Plum cake.md", TWO_READERS),
    Question(
        "bob",
        "How heavy may a maintenance vehicle on the Mill Bridge be?",
        "Structural calculation report.pdf",
        PAGE,
        page=3,
    ),
    Question(
        "alice",
        "What are the opening hours of the Harbour Library on Sunday?",
        "Client brief.pdf",
        PAGE,
        page=4,
    ),
    Question("bob", "Gertrud shows error 0x61", "Printer and plotter.md", EXACT),
)

_BY_LANGUAGE: Final = (
    Question("bob", "Wie hoch ist die Kaltmiete laut Mietvertrag?", "Mietvertrag Wohnung.pdf", GERMAN),
    Question("bob", "Welche Schweißnähte müssen neu geschweißt werden?", "Prüfbericht Schweißnähte.md", GERMAN),
    Question("alice", "Wie hoch stand das Grundwasser im August?", "Baugrundgutachten.pdf", GERMAN, page=2),
    Question("bob", "Wer darf Jonas von der Kita abholen?", "Kita Eingewöhnung.md", GERMAN),
    Question("bob", "Wann ist der Termin für die Winterreifen in der Werkstatt?", "Winterreifen wechseln", GERMAN),
    Question("alice", "À quelle heure commence la cérémonie du mariage à la mairie ?", "Mariage d'Odile.md", FRENCH),
    Question("bob", "Combien coûte chaque jour de retard à l'entreprise ?", "Cahier des charges.pdf", FRENCH, page=3),
    Question("carol", "Quand la grue sera-t-elle montée ?", "Courrier aux riverains.docx", FRENCH),
    Question("alice", "Combien d'œufs pour la tarte aux poireaux ?", "Tarte aux poireaux.md", FRENCH),
    Question(
        "carol",
        "¿Con cuánto preaviso puede rescindirse el contrato de alquiler?",
        "Contrato de alquiler Valencia.pdf",
        SPANISH,
        page=2,
    ),
    Question("carol", "¿Qué deben traer los alumnos a la excursión?", "Carta del colegio.txt", SPANISH),
    Question(
        "carol",
        "¿Qué oferta de aire acondicionado incluye la retirada de los aparatos viejos?",
        "Ofertas de aire acondicionado.txt",
        SPANISH,
    ),
    Question("alice", "Πότε βρέθηκε το πηγάδι κατά την εκσκαφή στην αυλή;", "Πρακτικά συνάντησης Μαΐου.md", GREEK),
    Question("bob", "Πόσο κοστίζουν τα παράθυρα και τα παντζούρια;", "Προσφορά ξυλουργού.txt", GREEK),
    Question("bob", "Πόσα χρόνια ισχύει η άδεια;", "Οικοδομική άδεια.docx", GREEK),
    Question("bob", "干し柿を作っているのは誰ですか", "京都からの手紙.txt", JAPANESE),
    Question("bob", "味噌は大さじ何杯溶かしますか", "味噌汁の作り方.md", JAPANESE),
)

QUESTIONS: Final[tuple[Question, ...]] = (*_OTHER_WORDS, *_NOTHING, *_BY_READER, *_BY_KIND, *_BY_LANGUAGE)
