"""Generator of German/English sentence pairs from one bilingual grammar."""
