"""Private releases as estimators of scikit-learn, beside those of pyRiemann. Needs the extra ``geodp[sklearn]``.

================================  =====================================================  =============================
here                              what a fit releases                                    for
================================  =====================================================  =============================
:class:`PrivateFrechetMean`       a mean                                                 none
:class:`PrivateTangentSpace`      coordinates about a private reference point            pyRiemann's ``TangentSpace``
:class:`PrivateMDM`               a classifier: minimum distance to private means        pyRiemann's ``MDM``
:class:`PrivateKMeans`            clusters                                               pyRiemann's ``Kmeans``
================================  =====================================================  =============================

*Fits add up.* Each ``fit`` spends the privacy that was asked for, once. A cross-validation with five folds and a grid of four
parameters is 20 fits on nearly the same records, and one more for the best. With a ``ledger`` each of them is charged, clones
included, and the fit that would pass the total is refused. Without one the second fit of an estimator, or of its clones in the
same process, warns once what they add up to; fits in other processes (``n_jobs``) are not seen.

*What is private and what is not.* What a fit learned may be published: attributes that end with an underscore, among them its
receipts ``releases_`` and what they cost together, ``cost_``. What ``transform`` and ``predict`` make **of private
records is private data**: every row is about one record, and no noise hides it. So is a score on private records.
``fit_transform`` and ``fit_predict``, which would hand out rows about the very records that a fit protects, refuse unless
``transform_private_records`` is true.
"""

from geodp.estimator.classifier import PrivateMDM
from geodp.estimator.clusters import PrivateKMeans
from geodp.estimator.mean import PrivateFrechetMean, PrivateTangentSpace

__all__ = ["PrivateFrechetMean", "PrivateKMeans", "PrivateMDM", "PrivateTangentSpace"]
