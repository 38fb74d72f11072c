"""The prompts the target is asked to answer: families of templates, filled with subjects.

A drafter must be measured on prompts it never saw, and templates repeat across subjects;
so every prompt knows its family, its template and its subjects, and `identify` recovers
them from the bare text of a stored prompt. `corpus` holds out by all three.

Knows nothing of tokens or models. Standard library only.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Prompt:
    """One user turn, with where it comes from."""

    family: str
    template: str
    text: str


def _words(block: str) -> tuple[str, ...]:
    return tuple(" ".join(entry.split()) for entry in block.split("|"))


TOPICS = _words("""
    the ocean | black holes | bicycles | coffee | the Roman Empire | photosynthesis | chess |
    volcanoes | honey bees | the stock market | jazz music | electric cars | dinosaurs | bread
    baking | the moon | robots | earthquakes | gardening | the internet | penguins | democracy |
    vaccines | mountain climbing | tea | sleep | the human heart | recycling | football |
    paintings | the Great Wall of China | elephants | solar energy | trains | rivers | time zones
    | friendship | mathematics | dreams | weather forecasting | libraries | chocolate | the brain
    | deserts | language learning | cats | dogs | ancient Egypt | computers | running a marathon |
    climate change | rainforests | wind turbines | bridges | swimming | photography | the Olympics
    | the solar system | gravity | magnets | sound waves | light bulbs | electricity | batteries |
    satellites | airplanes | ships | lighthouses | castles | pirates | astronauts | the periodic
    table | atoms | DNA | cells | bacteria | the immune system | teeth | eyes | muscles | bones |
    nutrition | vegetables | apples | cheese | rice | pasta | soup | cooking at home | restaurants
    | supermarkets | money | banks | taxes | insurance | budgeting | marketing | small businesses
    | job interviews | teamwork | leadership | public speaking | writing a resume | email
    etiquette | remote work | meetings | project planning | deadlines | stress | meditation | yoga
    | exercise | walking | hiking | camping | fishing | skiing | tennis | basketball | board games
    | video games | puzzles | music lessons | the piano | the guitar | opera | theater | movies |
    novels | poetry | fairy tales | myths | folklore | architecture | sculpture | fashion | wool |
    cotton | shoes | clocks | calendars | maps | compasses | GPS | telescopes | microscopes |
    museums | schools | universities | homework | exams | reading | handwriting | spelling |
    grammar | dictionaries | translation | sign language | newspapers | radio | television |
    social media | privacy | passwords | encryption | databases | spreadsheets | search engines |
    machine learning | neural networks | algorithms | operating systems | programming languages |
    open source software | version control | web browsers | smartphones | tablets | printers |
    cameras | headphones | drones | 3D printing | factories | farming | tractors | irrigation |
    soil | compost | trees | flowers | roses | mushrooms | grass | forests | wolves | bears |
    foxes | rabbits | horses | cows | sheep | chickens | ducks | owls | eagles | butterflies |
    ants | spiders | snakes | turtles | sharks | whales | dolphins | octopuses | coral reefs |
    islands | beaches | waves | tides | icebergs | glaciers | snow | rain | fog | thunderstorms |
    rainbows | the sun | the seasons | winter | spring | summer | autumn | holidays | birthdays |
    weddings | families | grandparents | babies | neighbors | communities | volunteering | charity
    | voting | courts | laws | police | firefighters | hospitals | doctors | nurses | pharmacies |
    dentists | first aid | allergies | colds and flu | headaches | back pain | healthy habits |
    drinking water | pollution | plastic | energy saving | public transport | traffic | roads |
    elevators | skyscrapers | houses | apartments | kitchens | furniture | painting a room |
    plumbing | tools | toys | dolls | kites | balloons | bubbles | colors | shapes | numbers |
    fractions | geometry | probability | statistics | logic | philosophy | ethics | happiness |
    courage | honesty | kindness | patience | curiosity | creativity | memory | habits | goals |
    time management | procrastination | travel | passports | hotels | airports | Paris | Tokyo |
    Brazil | Canada | Kenya | India | Australia | Iceland | Mexico | Italy | Ireland | the Silk
    Road | the Middle Ages | the Renaissance | the Industrial Revolution | the printing press |
    the telephone | the steam engine | penicillin | space exploration | Mars | comets | galaxies |
    the Big Bang | evolution | fossils | ice ages | caves | minerals | gold | diamonds | salt |
    sugar | spices | olive oil | wine | orange juice | ice cream | pancakes | pizza | sandwiches |
    salads | breakfast | picnics
""")

CODE_TASKS = _words("""
    reverses a string | computes the factorial of a number | checks if a number is prime | sorts a
    list of numbers | counts the words in a text | finds the largest element in a list | merges
    two dictionaries | computes the Fibonacci sequence | removes duplicates from a list | reads a
    file line by line | checks if a word is a palindrome | converts Celsius to Fahrenheit |
    computes the average of a list | finds the greatest common divisor | rotates a matrix | parses
    a date | validates an email address | implements a stack | implements a queue | searches a
    sorted list by bisection | counts vowels | flattens a nested list | groups items by key |
    computes a moving average | generates random passwords | converts a number to binary |
    capitalizes each word | finds common elements of two lists | computes the distance between two
    points | simulates rolling dice
""")

NAMES = _words("""
    Dana | Omar | Priya | Lucas | Mei | Anna | Tomas | Grace | Ivan | Sofia | Kofi | Lena | Marco
    | Yuki | Ben | Clara | Hugo | Nadia | Peter | Rosa
""")

THINGS = _words("""
    the blue lamp | order 4471 | my annual subscription | the second charge of $49.00 | a pair of
    running shoes | the hotel booking for two nights | the missing parcel | a broken coffee
    grinder | the invoice from March | two concert tickets | the password reset link | a late
    refund | the wrong size jacket | the train reservation | a damaged keyboard
""")

ISSUES = _words("""
    arrived late | was charged twice | does not work | was never delivered | is the wrong color |
    shows an error | was cancelled without notice | needs to be changed to Friday | is missing a
    part | expired yesterday
""")

CITIES = ("Lisbon", "Prague", "Nairobi", "Kyoto", "Lima", "Oslo")
DAYS = ("Monday", "Tuesday", "Friday", "Sunday")

# Families whose one blank is a topic.
TOPIC_FAMILIES: dict[str, tuple[str, ...]] = {
    "explain": (
        "What is {}?",
        "Explain {} to a ten year old.",
        "Describe {} in two sentences.",
        "Why is {} important?",
        "How does {} affect our lives?",
        "Give a simple definition of {}.",
        "What should a beginner know about {}?",
        "What are common misconceptions about {}?",
    ),
    "list": (
        "List five interesting facts about {}.",
        "Give me three tips related to {}.",
        "What are the advantages and disadvantages of {}?",
        "List the main types or parts of {}.",
        "Give ten words related to {}.",
        "Name four people, places or things connected to {}.",
    ),
    "story": (
        "Write a short story about {}.",
        "Tell a bedtime story that involves {}.",
        "Write the first paragraph of a mystery about {}.",
        "Write a short fable about {} with a moral.",
    ),
    "poem": (
        "Write a short poem about {}.",
        "Write a haiku about {}.",
        "Write a song verse about {}.",
    ),
    "letter": (
        "Write an email to a friend about {}.",
        "Write a formal letter to a company about {}.",
        "Write a short invitation to an event about {}.",
        "Write a thank-you note that mentions {}.",
        "Write a product advertisement connected to {}.",
    ),
    "guide": (
        "Write a step-by-step guide about {}.",
        "Write an introduction for an essay on {}.",
        "Create a quiz with three questions about {}.",
        "Summarize the history of {}.",
        "Make a lesson plan about {} for one hour.",
        "Write a conclusion paragraph for an article about {}.",
    ),
    "dialogue": (
        "Write a dialogue between two people about {}.",
        "Write an interview with an expert on {}.",
        "Tell me a joke about {}.",
    ),
    "table": (
        "Make a table with two columns comparing two aspects of {}.",
        "Write a JSON object with five facts about {}.",
        "Make a checklist for {}.",
    ),
}

# Families with blanks of their own.
CODE = (
    "Write a Python function that {}.",
    "Write a JavaScript function that {}.",
    "Explain how to write code that {}.",
    "Write a Python class that {} and show how to use it.",
    "Write a C function that {}.",
    "Write unit tests in Python for a function that {}.",
)

SUPPORT = (
    'You are a support agent. Reply politely to this ticket: "Hello, {thing} {issue}.'
    ' I paid on October {day}. Can you help? {name}"',
    'Summarize this ticket in one sentence: "Hi, this is {name}. {thing} {issue} and '
    'I have written twice since October {day}."',
    "Write a reply to {name}, who says that {thing} {issue}. Quote their words and "
    "say it will be fixed within {day} business days.",
)

QUOTE = (
    "Repeat the following sentence three times: {}",
    "Rewrite this text in formal English: {}",
    "Summarize this text: {}",
    "Rewrite this text and fix mistakes: {}",
    "Extract the names and places from this text: {}",
    "Copy this text and then explain it: {}",
    "Turn this text into bullet points: {}",
)

MATH = (
    "If I have {large} apples and buy {small} more, how many apples do I have?",
    "What is {large} plus {small}? Show the steps.",
    "A train travels {large} km in {small} hours. What is its speed?",
    "A shirt costs {large} dollars and is discounted by {small} percent. What is the final price?",
    "Count from {small} to {large}.",
    "List the multiples of {small} below 100.",
)

QUOTED = (
    "{name} and {other} talked about {topic} near {city}. They found that {thing} {issue}, "
    "so they decided to learn more about {second_topic} on {weekday}."
)

FAMILIES: dict[str, tuple[str, ...]] = {
    **TOPIC_FAMILIES,
    "code": CODE,
    "support": SUPPORT,
    "quote": QUOTE,
    "math": MATH,
}

# Share of each kind of prompt in a sample; the topic families share the first equally.
SHARES = {"topic": 0.66, "code": 0.11, "support": 0.10, "quote": 0.08, "math": 0.05}


def draw(source: random.Random) -> Prompt:
    """One prompt at random."""
    kind = source.choices(tuple(SHARES), tuple(SHARES.values()))[0]
    family = source.choice(tuple(TOPIC_FAMILIES)) if kind == "topic" else kind
    template = source.choice(FAMILIES[family])
    return Prompt(family, template, _fill(family, template, source))


def stream(seed: int) -> Iterator[Prompt]:
    """Prompts without end, the same for the same seed."""
    source = random.Random(seed)
    while True:
        yield draw(source)


def _fill(family: str, template: str, source: random.Random) -> str:
    pick = source.choice
    if family == "code":
        return template.format(pick(CODE_TASKS))
    if family == "support":
        return template.format(
            thing=pick(THINGS).capitalize(),
            issue=pick(ISSUES),
            day=source.randint(2, 28),
            name=pick(NAMES),
        )
    if family == "quote":
        return template.format(
            QUOTED.format(
                name=pick(NAMES),
                other=pick(NAMES),
                topic=pick(TOPICS),
                city=pick(CITIES),
                thing=pick(THINGS),
                issue=pick(ISSUES),
                second_topic=pick(TOPICS),
                weekday=pick(DAYS),
            )
        )
    if family == "math":
        return template.format(large=source.randint(10, 99), small=source.randint(2, 30))
    return template.format(pick(TOPICS))


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str, str], ...]:
    """A pattern per template, the most particular (longest) first."""
    pairs = [(template, family) for family, group in FAMILIES.items() for template in group]
    pairs.sort(key=lambda pair: -len(pair[0]))
    return tuple(
        (re.compile(re.sub(r"\\{\w*\\}", "(.+)", re.escape(template)), re.DOTALL), template, family)
        for template, family in pairs
    )


def identify(text: str) -> Prompt:
    """Which template wrote this prompt; family "other" and an empty template if none did."""
    for pattern, template, family in _patterns():
        if pattern.fullmatch(text):
            return Prompt(family, template, text)
    return Prompt("other", "", text)


def mentions(text: str, subjects: frozenset[str]) -> bool:
    """Whether any of these topics or tasks occurs in the text as whole words."""
    folded = text.casefold()
    return any(
        re.search(rf"(?<!\w){re.escape(subject.casefold())}(?!\w)", folded) for subject in subjects
    )
