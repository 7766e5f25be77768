"""`python -m numpyro_contour` runs the demo."""

from numpyro_contour.examples.demo import main

if __name__ == "__main__":
    main()
