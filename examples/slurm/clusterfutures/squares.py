"""What a user of clusterfutures writes for a Slurm cluster: nothing here knows Phalanx."""

from cfut import SlurmExecutor


def square(number: int) -> int:
    return number * number


if __name__ == "__main__":
    with SlurmExecutor(additional_setup_lines=["#SBATCH --time=5"]) as executor:
        squares = list(executor.map(square, [5, 7, 11]))
    assert squares == [25, 49, 121], squares
    print("three functions ran, each as a Slurm job, and their results came back")
