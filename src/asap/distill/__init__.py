"""Rules that act as another policy does: distillation of a teacher into skills and planes."""
