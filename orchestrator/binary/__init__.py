"""Binary formats: what ELF, Mach-O and bitcode files say, and the files we cut from them."""
