from shuffleboard.cli import main

main()
