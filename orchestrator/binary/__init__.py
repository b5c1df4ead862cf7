"""Binary formats: reads and checks ELF, Mach-O and bitcode files, and derives other files from
them."""
