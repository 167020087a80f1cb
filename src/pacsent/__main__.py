"""python -m pacsent"""

from pacsent.cli import main

if __name__ == "__main__":
    main()
