"""RoboCup 2D soccer as pure functions: the physics of rcssserver 15.2.2, for the striker tasks R1, R2 and R3."""
