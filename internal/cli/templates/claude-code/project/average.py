"""Averages of numbers."""


def average(numbers):
    """Returns the arithmetic mean, or 0 without numbers."""
    total = 0
    for number in numbers:
        total += number
    return total // len(numbers)
