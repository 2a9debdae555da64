"""The documents: every block of code in them is run or parsed, and the site is built from them."""
