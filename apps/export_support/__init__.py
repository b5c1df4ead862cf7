"""What the apps' export scripts share. Needs torch (the optional dependency group `export`)."""
