"""
The paper as printed, and corrected
===================================

Eight differences between what Nozawa and Sato (2019) print (red) and what is minimised, trained or
weighted correctly (blue). ``pacsent.paper.printed`` has both forms of each.
"""

import matplotlib.pyplot as plt

from pacsent.paper.printed import figures

panels = figures.panels()
figure, axes = plt.subplots(2, 4, figsize=(11, 5.2))
figures.draw(axes, panels)
figure.tight_layout()

# %%
# The same numbers without a figure:

for panel in panels:
    first, second = panel.curves
    print(f"{panel.title}: {first.name} {first.y[-1]:.3g}, {second.name} {second.y[-1]:.3g}")
