"""What the commands do, behind the command line that parses them."""
