"""The paper: numbers from the tables, claims judged over them, and the documents made of both."""
