"""Write what the models of the package need for looking words up, so that no first call makes it.

    python scripts/make_lookup.py

Hash tables and hashes of the words of each vocabulary under src/pacsent/models, in the file
lookup.safetensors of its folder; to be run after a model or one of the two hashes was changed.
"""

from pacsent.storage.model_folder import PACKAGED, SHIPPED
from pacsent.storage.tensor_files import TENSORS, read_tensors, write_tensors
from pacsent.words.vocabulary import Vocabulary
from pacsent.words.word_hashes import vocabulary_hashes


def main() -> None:
    for tensors_file in sorted(PACKAGED.rglob(TENSORS)):
        tensors = read_tensors(tensors_file)
        if "vocabulary.word_bytes" not in tensors:
            continue

        names = ("word_bytes", "word_offsets")
        vocabulary = Vocabulary.from_arrays({name: tensors[f"vocabulary.{name}"] for name in names})
        lookup = {
            "hash_table": vocabulary.table.lookup.table,
            "word_hashes": vocabulary_hashes(vocabulary),
        }
        target = tensors_file.parent / SHIPPED
        write_tensors(target, lookup)
        print(f"wrote {target}: {target.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
