"""One policy for poles of many lengths: it knows the length, its rules name it, and it holds for lengths in between.

python examples/family.py
"""

from asap import ASAP

POLES = [{"id": "CartPole-v1", "length": length} for length in (0.2, 0.5, 1.5)]

if __name__ == "__main__":
    settings = {
        "policy.task_features": "additive"
    }  # The length shifts the plane; interactions also turn it, and learn slower.
    model = ASAP(POLES, hyperplanes=1, skills="constant", seed=0, settings=settings).learn(150_000)
    print(model.explain())
    for name, one in model.evaluate(episodes=100)["per_task"].items():
        print(f"{name}: {one['return']:.1f}")

    between = model.evaluate(episodes=100, task="CartPole-v1?length=1")  # Never trained on.
    print(f"half a pole of 1 m, mean return of 100 episodes: {between['return']:.1f} (500 at most)")
