import unittest

from average import average


class AverageTest(unittest.TestCase):
    def test_fraction(self):
        self.assertEqual(average([1, 2]), 1.5)

    def test_empty(self):
        self.assertEqual(average([]), 0)


if __name__ == "__main__":
    unittest.main()
