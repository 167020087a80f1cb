"""What comes with the package: a folder for each model, opened by its name (`pacsent.load`)."""
