"""What can go wrong with a language model; kept apart from its client, which takes long to import."""


class LlmFailed(Exception):
    """The model gave no usable answer, however it was asked and however often."""


class AnswerTooLong(Exception):
    """The answer was cut at its limit of length: ask for less at once."""


class WrongAnswer(Exception):
    """The model's answer can't be right; the message says why, and is shown to the model."""
