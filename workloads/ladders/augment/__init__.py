"""Training with augmented images: where the augmentation is computed."""
